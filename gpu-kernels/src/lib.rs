//! Kernels written on `pipeline`, and the tables that tell the host what there is.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]
#[cfg(not(all(feature = "trace", target_arch = "nvptx64")))]
pub mod ceilings;
#[cfg(not(all(feature = "trace", target_arch = "nvptx64")))]
pub mod examples;
pub mod gemm;

/// What the macros of this crate name.
#[doc(hidden)]
pub mod private {
    pub use {isa, pipeline};
}
