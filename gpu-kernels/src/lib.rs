//! Kernels written on `pipeline`, and the tables that tell the host what there is.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]
pub mod examples;
pub mod gemm;
