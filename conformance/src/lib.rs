//! The SM model held against the chip: litmus programs that run as one kernel image on both, and a
//! judge that compares every value they observe.
//!
//! A [`Litmus`] launches one or more kernels of `kernels/` on a [`host::Device`] and pairs each value
//! that they wrote with what the PTX manual allows: one value, one of two, or a neighbourhood of the
//! exact result. That expectation is written by hand from the manual and knows nothing of the model,
//! so the model is judged by it as well.
//!
//! ```text
//!            the manual's words (this crate)
//!               ▲                  ▲
//!          every value         every value
//!               │                  │
//!     model ────┴── every value ───┴──── GPU
//! ```

mod bench;
mod judge;
pub mod litmus;
mod log;
pub mod report;

pub use bench::{Bench, words};
pub use conformance_kernels as kernels;
pub use judge::{Comparison, broken, compare};
pub use litmus::{Litmus, Refusal, all};
pub use log::{Allowed, Log, Seen};

/// The litmus kernels, compiled to PTX for sm_90a.
pub static IMAGE: isa::kernel::Image = isa::kernel_image!("conformance_kernels");
