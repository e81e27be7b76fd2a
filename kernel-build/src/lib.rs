//! Compiles a kernel crate to PTX with the stock Rust toolchain, from a `build.rs`.
//!
//! ```no_run
//! use kernel_build::{Arch, KernelBuilder};
//!
//! fn main() {
//!     KernelBuilder::new("gpu-kernels").arch(Arch::Sm90a).build_or_exit();
//! }
//! ```
//! and in the crate that the build script belongs to:
//! ```text
//! static IMAGE: isa::kernel::Image = include!(concat!(env!("OUT_DIR"), "/gpu_kernels.rs"));
//! ```
//!
//! # What happens
//! ```text
//!  kernel crate ──cargo rustc──▶ one unoptimised LLVM module   (nested cargo, fat LTO, core included)
//!               ──ir pass──────▶ convergent, launch bounds     (module ir)
//!               ──opt, llc─────▶ PTX                           (the llvm-tools of this very rustc)
//!               ──ptxas────────▶ cubin, only to be checked     (when a ptxas is found)
//! ```
//! The nested cargo alone runs with `RUSTC_BOOTSTRAP=1`, for `-Zbuild-std=core` and the device
//! features; the host side stays plain stable Rust. Its target folder is shared by all builds of
//! the workspace, so `core` is compiled once.
//!
//! # Why the IR pass
//! rustc marks nothing `convergent`. LLVM may then duplicate a barrier into the two arms of a
//! branch, and for an `.aligned` instruction that is undefined behaviour. So rustc is stopped
//! before its first optimisation, everything is marked as clang marks CUDA code, and only then
//! optimised. See [`ir`].
//!
//! # What a kernel crate must bring
//! `#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]`, a panic handler (the crate
//! `isa` has one) and kernels. Needed components of the toolchain: `rust-src` and `llvm-tools`.

mod builder;
mod depinfo;
mod error;
mod image;
pub mod ir;
mod lower;
pub mod meta;
mod nested;
pub mod ptxas;
mod toolchain;

pub use builder::{Arch, KernelBuilder};
pub use error::Error;
pub use image::DeviceImage;
pub use ptxas::PtxasCheck;
pub use toolchain::Toolchain;
