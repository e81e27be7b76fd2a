//! Roles split off while the grid ahead may still write.
mod support;
use support::*;

fn kernel(cta: ThisCta) {
    let early = Plan::<2>::prologue(cta);
    early.cta().specialize(|_load| {}, |_work| {});
}

fn main() {}
