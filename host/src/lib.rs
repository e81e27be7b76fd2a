//! The host side: devices, typed tensor maps, checked launches, and the GEMM built on them.
//!
//! The same API serves a GPU and the SM model:
//!
//! ```text
//! Device::cuda(i) | Device::sim(config) | Device::auto()
//!   alloc / upload            -> Buffer        Buffer::to_vec reads it back
//!   tensor_map                -> TensorMap     checked against TMA's rules
//!   load(&Image)              -> Module        the driver assembles a kernel at its first use
//!   launch(&Module, &KernelDesc, grid, &[Param], &Stream)
//!   Gemm::new(&Device, &Image).plan(&GemmProblem).run(a, b, c, d, alpha, beta)
//! ```
//!
//! [`data`] converts values. With the feature `reference`, it also makes some, and the module `reference` computes the
//! product in f64 and the error of a result. [`testing`] runs a kernel on the SM model under many thread schedules, and
//! [`timing`] times launches on a GPU.
//!
//! A program that has a context, streams and memory already goes on using them: [`Device::current`],
//! [`Device::from_raw_context`], [`Stream::from_raw`], [`Event::from_raw`] and [`Buffer::from_raw`] take them,
//! and with the feature `cudarc` there are safe constructors from cudarc's types.
//!
//! The CUDA libraries are loaded at run time. On a machine without a GPU, an [`Error`] says what is
//! missing, and the SM model can be used.

mod arch;
mod assemble;
pub mod attention;
mod buffer;
mod chain;
mod context;
mod cuda;
pub mod data;
mod device;
mod driver;
mod error;
mod event;
mod foreign;
pub mod gemm;
mod launch;
mod model;
mod model_tensor;
mod nvml;
#[cfg(feature = "cudarc")]
mod of_cudarc;
mod param;
#[cfg(feature = "reference")]
pub mod reference;
pub mod sm100;
mod stream;
mod tensor;
mod tensor_batch;
mod tensor_error;
mod tensor_nd;
pub mod testing;
pub mod timing;
mod turns;
mod view;
mod view_error;

pub use buffer::{Buffer, Copy2d};
pub use cuda::{DeviceInfo, cuda_devices};
pub use device::{Device, SM90_SMEM_BYTES};
pub use error::Error;
pub use event::Event;
pub use isa::kernel::Dtype;
pub use launch::Module;
pub use nvml::driver_version;
pub use param::Param;
pub use sim;
pub use sim::{Config as SimConfig, Progress as SimProgress, Strategy};
pub use stream::{Graph, Stream};
pub use tensor::{TensorBox, TensorMap, TensorSpec};
pub use tensor_error::{TensorError, dtype_name, pair_name};
pub use tensor_nd::TensorNd;
pub use view::{View, ViewMut};
pub use view_error::ViewError;
