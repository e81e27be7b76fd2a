//! Attention: O = softmax(scale · Q·Kᵀ) · V, one [kernel](kernel::attention) with two type parameters
//! to choose: [`Sequences`] and [`Score`]. The list of work comes from the host.
//!
//! ```text
//! work       which queries of which head        a list for each CTA, from the host
//! sequences  how long they are, where they lie  Equal, Packed
//! score      what becomes of a score            Plain, SoftCap, or your own: a bias, a mask
//! ```
//!
//! [`table`] has the compiled kernels of this crate. [`decode`] is the kernel for few queries. It takes a [`Score`], too. A
//! variant of the kernel in a crate of your own can use [`work`], [`softmax`] and [`out`] as they are.

pub mod args;
pub mod decode;
pub mod kernel;
pub mod out;
pub mod score;
pub mod sequences;
pub mod softmax;
pub mod table;
pub mod work;

pub use args::AttentionArgs;
pub use score::{Place, Plain, Score, SoftCap};
pub use sequences::{Equal, Packed, Sequences};
#[cfg(not(target_arch = "nvptx64"))]
pub use table::{INSTANCES, Instance};
