//! A kernel that says of how many CTAs an SM's registers are, which its roles say.
mod support;
use support::*;

#[isa::kernel(min_ctas = 2)]
fn kernel(cta: ThisCta) {
    let _ready = cta.init();
}

fn main() {}
