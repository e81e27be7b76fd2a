//! Litmus kernels: each does one thing with the machine and writes down what it saw.
//!
//! They are written with `isa` alone, in the order in which the instructions are to be executed. No
//! wait is unbounded: a wait that should not pass is tried a number of times and the outcome
//! recorded, so that a wrong belief about the machine gives a value and not a hang.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]

pub mod barriers;
pub mod bulk;
pub mod clusters;
pub mod cp_async;
pub mod matrix;
pub mod mbarrier;
pub mod memory;
pub mod places;
pub mod record;
pub mod remote;
pub mod tensor;
pub mod transactions;
pub mod warp;
pub mod wgmma;
