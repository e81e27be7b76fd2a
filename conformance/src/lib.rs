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
pub mod blackwell;
mod judge;
pub mod litmus;
mod log;
pub mod report;

pub use bench::{Bench, words};
pub use conformance_kernels as kernels;
pub use judge::{Comparison, broken, compare};
pub use litmus::{Litmus, Refusal, all};
pub use log::{Allowed, Log, Seen};

#[cfg(feature = "sm100")]
static BLACKWELL_IMAGE: isa::kernel::Image = isa::kernel_image!("blackwell/conformance_blackwell");

/// The litmus kernels for Blackwell, for sm_100a and sm_103a; without code, for the model alone, if the feature `sm100` is
/// not on.
pub fn blackwell_image() -> &'static isa::kernel::Image {
    #[cfg(feature = "sm100")]
    return &BLACKWELL_IMAGE;
    #[cfg(not(feature = "sm100"))]
    {
        use isa::kernel::Image;
        use std::sync::LazyLock;
        static IMAGE: LazyLock<Image> = LazyLock::new(|| Image {
            name: "conformance_blackwell",
            arch: "sm_100a",
            code: &[],
            kernels: blackwell::kernels().leak(),
            ptxas: None,
            others: &[],
        });
        &IMAGE
    }
}

/// The litmus kernels, compiled to PTX for sm_90a.
pub static IMAGE: isa::kernel::Image = isa::kernel_image!("conformance_kernels");
