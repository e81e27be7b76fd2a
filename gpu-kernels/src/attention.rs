//! Attention: O = softmax(scale · Q·Kᵀ) · V, one [kernel](kernel::attention) with a seam for the scores.
//!
//! ```text
//! work      which queries of which head       a list for each CTA, from the host
//! score     what becomes of a score            Plain, SoftCap, or your own: a bias, a mask
//! ```
//!
//! [`table`] has the compiled kernels of this crate.

pub mod args;
pub mod kernel;
pub mod score;
mod softmax;
pub mod table;

pub use args::AttentionArgs;
pub use score::{Place, Plain, Score, SoftCap};
#[cfg(not(target_arch = "nvptx64"))]
pub use table::{INSTANCES, Instance};
