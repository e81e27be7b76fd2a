//! A kernel that says of how many CTAs an SM's registers are, and is wrong.
mod support;
use support::*;

#[isa::kernel(threads = ThisCta::THREADS, smem = Plan::<2>::BYTES, min_ctas = 2)]
fn kernel(cta: ThisCta) {
    let _ready = Plan::<2>::init(cta);
}

fn main() {}
