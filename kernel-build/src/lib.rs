//! Compiles a kernel crate to PTX with the stock Rust toolchain, from a `build.rs`.
//!
//! ```no_run
//! use warpipe_kernel_build::{Arch, KernelBuilder};
//!
//! fn main() {
//!     KernelBuilder::package("my-kernels").arch(Arch::Sm90a).build_or_exit();
//! }
//! ```
//! The crate of the build script embeds the result:
//! ```text
//! static IMAGE: isa::kernel::Image = isa::kernel_image!("my_kernels");
//! ```
//! [`KernelBuilder::package`] finds the kernel crate by its name among the dependencies of the build script's package.
//! [`KernelBuilder::new`] takes a folder.
//!
//! An image may have code for several architectures: [`KernelBuilder::arch`], more than once.
//!
//! # The steps
//! ```text
//!  kernel crate ──cargo rustc──▶ one unoptimised LLVM module   (nested cargo, fat LTO, core included)
//!               ──ir pass──────▶ convergent, launch bounds     (module ir)
//!               ──split────────▶ a module per kernel           (module ir)
//!               ──opt, llc─────▶ PTX                           (the llvm-tools of the same rustc)
//!               ──ptxas────────▶ cubins, only as a check       (when a ptxas is found)
//!               ──brotli───────▶ the image
//! ```
//! The driver assembles a whole module before it runs any kernel of it. In the image, each kernel is a
//! module of its own, so that a program waits only for the kernels that it uses.
//!
//! Only the nested cargo runs with `RUSTC_BOOTSTRAP=1`, for `-Zbuild-std=core` and the device features;
//! the host side is stable Rust. All builds of the workspace share the nested target folder, so `core` is
//! compiled once.
//!
//! # Why the IR pass
//! rustc does not mark anything `convergent`. LLVM may then duplicate a barrier into the two arms of a
//! branch, which is undefined behaviour for an `.aligned` instruction. This crate therefore stops rustc
//! before its first optimisation, marks everything as clang marks CUDA code, and then optimises. See
//! [`ir`].
//!
//! # Requirements of a kernel crate
//! `#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]`, a panic handler (the crate
//! `isa` has one) and kernels. The toolchain needs the components `rust-src` and `llvm-tools`.
//!
//! # The check by ptxas
//! If a ptxas is found, spills, stack use and serialised wgmmas are errors. Without one, the build reports
//! that and continues, because the driver assembles PTX itself. The search order is:
//!
//! | variable | value |
//! |---|---|
//! | `PTXAS` | the program |
//! | `WARPIPE_PTXAS_WHEEL` | a virtual environment, or the `pip install --target` folder, with `nvidia-cuda-nvcc` |
//! | `CUDA_HOME` | a CUDA installation |
//! | `PATH` | folders |
//!
//! ptxas names a line of the PTX at best. So a kernel with a fault is built once more, with line information, and the
//! error names and quotes the line of Rust (module `blame`).
//!
//! # Rebuilds
//! A build script that uses this crate runs again when a source, manifest or lock file of the kernel crate
//! or of one of its path dependencies changes. The list of files comes from cargo's dep-info of the nested
//! build. A step is skipped if its input is unchanged. This command shows the intermediate files without a
//! build script:
//! `KEEP=1 cargo run -p warpipe-kernel-build --example build_ptx -- <crate dir> <out dir>`.

mod blame;
mod builder;
mod cta;
mod depinfo;
mod error;
pub mod facts;
mod image;
pub mod ir;
mod lower;
pub mod meta;
mod nested;
mod pack;
mod package;
mod parallel;
pub mod ptx;
pub mod ptxas;
mod toolchain;
mod workspace;

pub use builder::{Arch, KernelBuilder};
pub use error::Error;
pub use image::DeviceImage;
pub use ptxas::PtxasCheck;
pub use toolchain::Toolchain;
