//! Litmus kernels: each kernel tests one property of the machine and records what it observes.
//!
//! They use only `isa`, and their instructions execute in program order. No wait is unbounded: a wait that
//! should not pass is tried a limited number of times and its outcome is recorded. A wrong assumption about
//! the machine therefore gives a wrong value and not a hang.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]

pub mod barriers;
pub mod bulk;
pub mod clusters;
pub mod cp_async;
pub mod element_types;
pub mod launches;
pub mod majors;
pub mod math;
pub mod matrix;
pub mod mbarrier;
pub mod memory;
pub mod places;
pub mod record;
pub mod registers;
pub mod remote;
pub mod tensor;
pub mod tensor_maps;
pub mod transactions;
pub mod warp;
pub mod wgmma;
