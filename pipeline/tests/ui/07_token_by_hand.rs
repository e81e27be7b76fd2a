//! The token of the CTA made in the middle of a kernel.
mod support;
use support::*;

fn kernel() {
    let _ready = <ThisCta>::enter().init();
}

fn main() {}
