//! Kernels written on `pipeline`, as templates and compiled.
//!
//! [`gemm`] is a template: one GEMM kernel whose main loop, epilogue and scheduler are types. The feature
//! `entry-points` adds compiled kernels: the table of GEMMs, `examples` and `ceilings`. A kernel crate of your
//! own leaves it out, so that its image has its own kernels alone.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]
#![forbid(unsafe_code)]
#[cfg(all(feature = "entry-points", not(all(feature = "trace", target_arch = "nvptx64"))))]
pub mod ceilings;
#[cfg(all(feature = "entry-points", not(all(feature = "trace", target_arch = "nvptx64"))))]
pub mod examples;
pub mod gemm;

/// What the macros of this crate name.
#[doc(hidden)]
pub mod private {
    pub use {isa, pipeline};
}
