//! Kernels written on `pipeline`, as templates and compiled.
//!
//! [`gemm`] is a template: one GEMM kernel whose main loop, epilogue and scheduler are types. Features add compiled
//! kernels. A kernel crate of your own leaves them out, so that its image has its own kernels alone.
//!
//! | feature | kernels |
//! |---|---|
//! | `gemm-bf16`, `gemm-f16` | GEMMs whose operands and result have one type |
//! | `gemm-bf16-f32`, `gemm-f16-f32` | GEMMs with an f32 result |
//! | `gemm-mixed` | GEMMs with bf16 operands and an f16 result, and the reverse |
//! | `gemm-e4m3` | GEMMs with operands of e4m3 and their scales |
//! | `gemm-e4m3-e4m3` | GEMMs with operands and results of e4m3: [`gemm::quantised`] |
//! | `gemm-e5m2` | GEMMs with operands of e5m2, also mixed with e4m3: [`gemm::e5m2`] |
//! | `gemm-int8` | GEMMs with operands of s8: [`gemm::integer`] |
//! | `gemm-tf32` | GEMMs of f32 with operands rounded to tf32 |
//! | `gemm-fused` | GEMMs of bf16 and of f16 with bias, activation, residual and gates: [`gemm::fused`] |
//! | `gemm-layouts` | GEMMs of bf16 and of f16 with MN-major operands, and batches: [`gemm::layouts`] |
//! | `gemm-grouped` | GEMMs of bf16 for groups of rows, each with a B of its own: [`gemm::grouped`] |
//! | `gemm` | all GEMMs: [`gemm::table`] |
//! | `examples` | small kernels, each of which shows a part of `pipeline` |
//! | `ceilings` | kernels that measure the limits of a GPU |
//! | `sm100` | the GEMMs for Blackwell, in a part of the image of their own: [`sm100`]. Not one of the entry points |
//! | `entry-points` | all of these |
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]
#![forbid(unsafe_code)]

// The modules with compiled kernels are not in the unit tests' build, which would compile all kernels again, for minutes.
// Tests of kernels are in `tests`, and in `host`.
#[cfg(not(test))]
pub mod attention;
#[cfg(all(not(test), feature = "ceilings", not(all(feature = "trace", target_arch = "nvptx64"))))]
pub mod ceilings;
#[cfg(all(not(test), feature = "examples", not(all(feature = "trace", target_arch = "nvptx64"))))]
pub mod examples;
pub mod gemm;
#[cfg(not(test))]
pub mod sm100;

/// What the macros of this crate name.
#[doc(hidden)]
pub mod private {
    pub use {isa, pipeline};
}
