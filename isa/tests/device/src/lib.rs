//! One kernel per module of isa, each function called once with operands from the kernel's
//! parameters, so that none is folded away.
//!
//! What the kernels compute is nonsense; nobody runs them.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]
// On the host nobody launches them.
#![cfg_attr(not(target_arch = "nvptx64"), allow(dead_code))]

use isa::slice::DeviceSliceMut;

#[cfg(not(feature = "sm100"))]
mod memory;
#[cfg(feature = "sm100")]
mod sm100;
#[cfg(not(feature = "sm100"))]
mod sync;
#[cfg(not(feature = "sm100"))]
mod tensor;

/// Keeps a result: the optimiser can't drop what goes to memory.
fn keep(out: &DeviceSliceMut<u64>, i: usize, v: impl Into<u64>) {
    out.set(i, v.into());
}
