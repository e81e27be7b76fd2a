//! A plan initialised twice.
mod support;
use support::*;

fn kernel(cta: ThisCta) {
    let first = cta.init();
    let second = cta.init();
    drop((first, second));
}

fn main() {}
