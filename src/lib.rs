//! warpipe: CUTLASS-style pipeline templates for NVIDIA Hopper GPUs, in safe Rust.
//!
//! This crate gathers the others under one name, and embeds the GEMM kernels as they were compiled
//! by its build script:
//!
//! - [`isa`]: one function per instruction of the device.
//! - [`pipeline`]: rings, states, barriers, tiles and roles as types.
//! - [`gpu_kernels`]: kernels written on them.
//! - [`host`]: devices (a GPU, or the SM model), tensor maps, checked launches, and the GEMM.
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
//! The command `warpipe` is in the same package.

pub use gpu_kernels;
pub use host;
pub use isa;
pub use pipeline;

/// The kernels of [`gpu_kernels`], compiled to PTX for sm_90a when this crate was built.
pub static GEMM_IMAGE: isa::kernel::Image = include!(concat!(env!("OUT_DIR"), "/gpu_kernels.rs"));

/// One GEMM kernel that records what its warps do, by [`isa::trace`]: for `warpipe trace` on a GPU.
#[cfg(feature = "trace")]
pub static TRACED_IMAGE: isa::kernel::Image =
    include!(concat!(env!("OUT_DIR"), "/traced/gpu_kernels.rs"));
