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
//!               ──split────────▶ a module per kernel           (module ptx)
//!               ──ptxas────────▶ cubins, only to be checked    (when a ptxas is found)
//!               ──deflate──────▶ the image
//! ```
//! The driver assembles a module whole before it runs any of it; so each kernel of the image is a
//! module by itself, and a program waits for the kernels that it uses.
//!
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
//!
//! # The check by ptxas
//! Spills, stack use and serialised wgmmas are errors where a ptxas is found; where none is, the
//! build says so and goes on, for the driver assembles PTX itself. It is looked for in this order:
//!
//! | variable | value |
//! |---|---|
//! | `PTXAS` | the program |
//! | `WARPIPE_PTXAS_WHEEL` | a virtual environment, or the `pip install --target` folder, with `nvidia-cuda-nvcc` |
//! | `CUDA_HOME` | a CUDA installation |
//! | `PATH` | folders |
//!
//! # When it runs again
//! A build script that uses this crate runs again when a source, manifest or lock file of the
//! kernel crate or of a path crate below it changed: cargo's own list of what the nested build
//! read. Each step is skipped when its input is what it was. What goes on in between can be looked
//! at without a build script:
//! `KEEP=1 cargo run -p warpipe-kernel-build --example build_ptx -- <crate dir> <out dir>`.

mod builder;
mod depinfo;
mod error;
mod image;
pub mod ir;
mod lower;
pub mod meta;
mod nested;
mod parallel;
pub mod ptx;
pub mod ptxas;
mod toolchain;

pub use builder::{Arch, KernelBuilder};
pub use error::Error;
pub use image::DeviceImage;
pub use ptxas::PtxasCheck;
pub use toolchain::Toolchain;
