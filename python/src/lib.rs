//! The extension module of the Python package `warpipe`.
//!
//! A call goes through three steps. `dlpack` and `interchange` get the tensors from Python. [`layout`] and
//! [`product`] turn them into the GEMM's matrices, and refuse what it cannot read; they are plain Rust, which
//! `cargo test --no-default-features` tests without Python. `engine` runs the product on a GPU, and `model` on the SM
//! model. [`attention`] has the same steps for attention.

pub mod attention;
pub mod batch;
pub mod kept;
pub mod layout;
pub mod product;
pub mod refusal;

#[cfg(feature = "module")]
mod array;
#[cfg(feature = "module")]
mod bmm;
#[cfg(feature = "module")]
mod dlpack;
#[cfg(feature = "module")]
mod doctor;
#[cfg(feature = "module")]
mod engine;
#[cfg(feature = "module")]
mod grouped;
#[cfg(feature = "module")]
mod interchange;
#[cfg(feature = "module")]
mod layer;
#[cfg(feature = "module")]
mod model;
#[cfg(feature = "module")]
mod python;
#[cfg(feature = "module")]
mod scaled;
#[cfg(feature = "module")]
mod torch;
#[cfg(feature = "module")]
mod tuning;
#[cfg(feature = "module")]
mod typed;

/// `warpipe._native`.
#[cfg(feature = "module")]
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::array::grouped_mm_array;
    #[pymodule_export]
    use crate::attention::lengths::{CacheSeqlens, sequence_lengths};
    #[pymodule_export]
    use crate::attention::python::{
        AttentionPlan, attention, attention_describe, attention_fast, attention_run,
        attention_varlen, attention_with_kvcache, plan_attention,
    };
    #[pymodule_export]
    use crate::bmm::bmm;
    #[pymodule_export]
    use crate::doctor::doctor;
    #[pymodule_export]
    use crate::grouped::grouped_mm;
    #[pymodule_export]
    use crate::layer::fused_linear;
    #[pymodule_export]
    use crate::python::{Error, Plan, describe, fast, linear, matmul, plan, run};
    #[pymodule_export]
    use crate::scaled::scaled_mm;
    #[pymodule_export]
    use crate::torch::register_torch;
    #[pymodule_export]
    use crate::tuning::{load_tuning, save_tuning, tune};
    #[pymodule_export]
    use crate::typed::typed_mm;
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
