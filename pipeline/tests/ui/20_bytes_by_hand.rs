//! A kernel that states less shared memory than its Cta's plan has.
mod support;
use support::*;

#[isa::kernel(smem = 1024)]
fn kernel(cta: ThisCta) {
    let _ready = cta.init();
}

fn main() {}
