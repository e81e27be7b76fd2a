//! CUTLASS-style pipeline templates for NVIDIA Hopper GPUs, in safe Rust.
//!
//! Device code is Rust that is compiled to PTX for sm_90a. The same kernels also run on the CPU, on a
//! model of the SM that reports races and deadlocks. This crate re-exports the project's libraries and
//! embeds the image of the GEMM kernels:
//!
//! - [`isa`]: one function for each PTX instruction.
//! - [`pipeline`]: rings (CUTLASS's pipelines), pipeline states, barriers, tiles and warp roles as types.
//! - [`gpu_kernels`]: the GEMM and example kernels, written with `pipeline`.
//! - [`host`]: devices (a GPU or the SM model), tensor maps, checked launches, and the GEMM's host API.
//!
//! The example multiplies two random matrices, on the first Hopper GPU or otherwise on the SM model:
//!
//! ```no_run
//! use host::gemm::{Gemm, GemmProblem};
//! use host::{Device, Dtype, data};
//! use warpipe::host;
//!
//! # fn main() -> Result<(), host::Error> {
//! let device = Device::auto();
//! let problem =
//!     GemmProblem { m: 512, n: 256, k: 128, ab: Dtype::Bf16, out: Dtype::Bf16, beta_c: false };
//! let plan = Gemm::new(&device, &warpipe::GEMM_IMAGE)?.plan(&problem)?;
//! let a = device.upload(&data::encode(&data::normal(1, 512 * 128), Dtype::Bf16)?)?;
//! let b = device.upload(&data::encode(&data::normal(2, 256 * 128), Dtype::Bf16)?)?;
//! let mut d = device.alloc(512 * 256 * 2)?;
//! plan.run(&a, &b, None, &mut d, 1.0, 0.0)?;
//! let values = data::decode(&d.to_vec()?, Dtype::Bf16)?;
//! println!("{}: d[0][0] = {}", plan.describe(), values[0]);
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//! - `host` (default): [`host`] and the image [`GEMM_IMAGE`]. A kernel crate, which is also compiled for the GPU,
//!   depends on warpipe without it: `default-features = false`.
//! - `build-kernels`: the build script compiles the image from source, with the components `rust-src` and `llvm-tools`
//!   of the toolchain. Without it, the build takes the image that the package brings along.
//! - `bounded-waits`, `trace`: kernels whose waits trap after two seconds; kernels that record what their warps do.
//!
//! The command `warpipe` is the package `warpipe-cli`; `warpipe doctor` reports what the machine has.

#![cfg_attr(target_arch = "nvptx64", no_std)]

pub use gpu_kernels;
#[cfg(feature = "host")]
pub use host;
pub use isa;
// An image is embedded on the host alone.
#[cfg(not(target_arch = "nvptx64"))]
pub use isa::kernel_image;
pub use isa::{device, kernel};
pub use pipeline;

/// The kernels of [`gpu_kernels`] as PTX for sm_90a.
#[cfg(feature = "host")]
pub static GEMM_IMAGE: isa::kernel::Image = isa::kernel_image!("warpipe_gpu_kernels");

/// GEMM kernels that record what their warps do ([`isa::trace`]), for `warpipe trace` on a GPU.
#[cfg(feature = "trace")]
pub static TRACED_IMAGE: isa::kernel::Image = isa::kernel_image!("traced/warpipe_gpu_kernels");
