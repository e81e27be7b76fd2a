//! A tensor map as a field of a value, whose address would be the host's.
mod support;
use isa::kernel::KernelArg;
use support::*;

#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
struct Args<'a> {
    steps: u32,
    from: &'a TensorMap<Panel>,
}

fn main() {}
