//! A plan initialised twice.
mod support;
use support::*;

fn kernel(cta: ThisCta) {
    let first = Plan::<2>::init(cta);
    let second = Plan::<2>::init(cta);
    drop((first, second));
}

fn main() {}
