//! A kernel that states threads and cluster beside its Cta, which has them in its type.
mod support;
use support::*;

#[isa::kernel(threads = 128, cluster = (2, 1, 1))]
fn kernel(cta: ThisCta) {
    let _ready = cta.init();
}

fn main() {}
