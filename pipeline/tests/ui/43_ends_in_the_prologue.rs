//! A ring used while the grid ahead may still write.
mod support;
use support::*;

fn kernel(cta: ThisCta) {
    let early = Plan::<2>::prologue(cta);
    let (_ring, _stores) = early;
}

fn main() {}
