//! The kernels that pages of docs/ quote. Tests on the SM model are in the crate that has this one as a dependency.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]
#![forbid(unsafe_code)]

pub mod add;
pub mod overlap;
pub mod product;
