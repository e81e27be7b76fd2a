//! The pipeline tests of CUTLASS, re-imagined: every pairing of producers and consumers, over many
//! stage counts, step counts, cluster shapes and schedules, with the data as the judge.
//!
//! The kernels are in `kernels/`, compiled apart from the product's image; `tests/integration` runs
//! them on the SM model, and on a GPU where there is one.

pub use scenario_kernels as kernels;

/// The scenario kernels, compiled to PTX for sm_90a.
pub static IMAGE: isa::kernel::Image = isa::kernel_image!("scenario_kernels");
