//! The extension module of the Python package `warpipe`.
//!
//! A call goes through three steps. [`layout`] and [`product`] turn tensors into the GEMM's matrices, and
//! refuse what it cannot read; they are plain Rust, which `cargo test --no-default-features` tests without
//! Python. `dlpack` and `interchange` get the tensors from Python. `engine` runs the product on a GPU, and
//! `model` on the SM model.

pub mod layout;
pub mod product;
pub mod refusal;

#[cfg(feature = "module")]
mod dlpack;
#[cfg(feature = "module")]
mod doctor;
#[cfg(feature = "module")]
mod engine;
#[cfg(feature = "module")]
mod interchange;
#[cfg(feature = "module")]
mod model;
#[cfg(feature = "module")]
mod python;
#[cfg(feature = "module")]
mod torch;

/// `warpipe._native`.
#[cfg(feature = "module")]
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::doctor::doctor;
    #[pymodule_export]
    use crate::python::{Error, Plan, describe, fast, linear, matmul, plan, run};
    #[pymodule_export]
    use crate::torch::register_torch;
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
