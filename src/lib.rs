//! CUTLASS-style pipeline templates for NVIDIA Hopper GPUs, in safe Rust.
//!
//! Device code is Rust that is compiled to PTX for sm_90a. The same kernels also run on the CPU, on a
//! model of the SM that reports races and deadlocks. This crate re-exports the project's libraries and
//! embeds the image of the GEMM and attention kernels:
//!
//! - [`isa`]: one function for each PTX instruction.
//! - [`pipeline`]: rings (CUTLASS's pipelines), pipeline states, barriers, tiles and warp roles as types.
//! - [`gpu_kernels`]: the GEMM and attention kernels, and examples, written with `pipeline`.
//! - [`half`]: bf16 and f16, with the features that a kernel crate can use.
//! - [`host`]: devices (a GPU or the SM model), tensor maps, checked launches, and the host APIs of GEMM and
//!   attention.
//!
//! The example multiplies two matrices, on the first Hopper GPU or otherwise on the SM model:
//!
//! ```no_run
//! use warpipe::host::gemm::{Gemm, GemmProblem};
//! use warpipe::host::{Device, Dtype, Error, data};
//!
//! # fn main() -> Result<(), Error> {
//! let (m, n, k, bf16) = (512, 256, 128, Dtype::Bf16);
//! let device = Device::auto();
//! let problem = GemmProblem { m, n, k, ab: bf16, out: bf16, beta_c: false };
//! let plan = Gemm::new(&device, &warpipe::GEMM_IMAGE)?.plan(&problem)?;
//! let a = device.upload(&data::encode(&vec![1.0; (m * k) as usize], bf16)?)?;
//! let b = device.upload(&data::encode(&vec![0.5; (n * k) as usize], bf16)?)?;
//! let mut d = device.alloc((m * n * 2) as usize)?;
//! plan.run(&a, &b, None, &mut d, 1.0, 0.0)?;
//! println!("{}: d[0][0] = {}", plan.describe(), data::decode(&d.to_vec()?, bf16)?[0]);
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//! - `host` (default): [`host`]. A kernel crate, which is also compiled for the GPU, depends on warpipe without it:
//!   `default-features = false`.
//! - `gemm-bf16` (default), `gemm-f16`, `gemm-bf16-f32`, `gemm-f16-f32`, `gemm-mixed`: the kernels of the image, by
//!   the types of operands and result. `gemm-bf16-f32` has bf16 operands and an f32 result; `gemm-mixed` has bf16
//!   operands and an f16 result, and the reverse. `gemm-e4m3` has operands of e4m3 with scales, `gemm-fused` bf16
//!   and f16 with bias, activation, residual and gates, `gemm-layouts` bf16 and f16 with MN-major operands, and batches,
//!   `gemm-grouped` bf16 with a B for each group of rows, `gemm-e4m3-e4m3` results of e4m3, `gemm-e5m2` e5m2 and mixes with
//!   e4m3, `gemm-int8` 8-bit integers and `gemm-tf32` f32 rounded to tf32. `gemm` is all of them. Each comes with the image
//!   [`GEMM_IMAGE`]. A
//!   program whose kernels are its own leaves them out: `default-features = false, features = ["host"]`.
//! - `attention`: the image also has the attention kernels. `warpipe::host::attention`, which runs them, comes with `host`, and
//!   runs kernels of your own without this feature.
//! - `reference`: seeded normal values, and the product in f64 with which a result is compared
//!   (`warpipe::host::reference`).
//! - `cudarc`: constructors from the contexts, streams and memory of cudarc.
//! - `build-kernels`: the build script compiles the image from source, with the components `rust-src` and `llvm-tools`
//!   of the toolchain. Without it, the build takes the image that the package brings along.
//! - `entry-points`: the image also has [`gpu_kernels`]' examples and the kernels that measure a GPU's limits.
//! - `bounded-waits`, `trace`, `stress`: kernels whose waits trap after two seconds; kernels that record what their warps
//!   do; kernels that pause at random, for tests.
//!
//! The command `warpipe` is the package `warpipe-cli`; `warpipe doctor` reports what the machine has.

#![cfg_attr(target_arch = "nvptx64", no_std)]

pub use float8;
pub use gpu_kernels;
pub use half;
#[cfg(feature = "host")]
pub use host;
pub use isa;
// An image is embedded on the host alone.
#[cfg(not(target_arch = "nvptx64"))]
pub use isa::kernel_image;
pub use isa::{device, kernel};
pub use pipeline;

/// What a kernel's source imports: the attribute [`macro@kernel`], element types, arguments, and the names of
/// [`pipeline::prelude`].
///
/// ```
/// use warpipe::prelude::*;
///
/// names! { Rows = "rows" }
/// roles! { Load = 1 x 40 registers, Work = 1 x 232 registers }
///
/// type Plan = SmemPlan<(Ring<4, (Tile<bf16, 64, 64>,), Tma, Reads<Work>, Rows, Cluster<1, 1>>,)>;
///
/// /// How many bytes of shared memory a CTA has, and how many threads.
/// #[kernel]
/// fn empty(_cta: Cta<(Load, Work), Cluster<1, 1>, Plan>) {}
///
/// let facts = <empty as Kernel>::DESC.meta;
/// assert_eq!((facts.threads, facts.smem_bytes), (256, 4 * 64 * 64 * 2 + 2 * 4 * 8));
/// ```
pub mod prelude {
    pub use isa::kernel;
    #[cfg(not(target_arch = "nvptx64"))]
    pub use isa::kernel::Kernel;
    pub use isa::kernel::KernelArg;
    pub use isa::slice::{DeviceSlice, DeviceSliceMut};
    pub use pipeline::prelude::*;
}

/// The kernels of [`gpu_kernels`] that the features choose, as PTX for sm_90a. With the feature `sm100` it has parts for
/// sm_100a and sm_103a, too.
#[cfg(feature = "gemm-image")]
pub static GEMM_IMAGE: isa::kernel::Image = isa::kernel_image!("warpipe_gpu_kernels");

/// GEMM kernels that record what their warps do ([`isa::trace`]), for `warpipe trace` on a GPU.
#[cfg(feature = "trace")]
pub static TRACED_IMAGE: isa::kernel::Image = isa::kernel_image!("traced/warpipe_gpu_kernels");
