//! A kernel whose launch bound is not its roles' threads, from which their registers are shared out.
mod support;
use support::*;

#[isa::kernel(threads = 128, smem = Plan::<2>::BYTES)]
fn kernel(cta: ThisCta) {
    let _ready = Plan::<2>::init(cta);
}

fn main() {}
