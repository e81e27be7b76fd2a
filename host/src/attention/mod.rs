//! Attention forward, `O = softmax(mask(cap(scale * Q K^T))) V`.
//!
//! [`AttentionProblem`] states sizes, mask and layouts, [`WorkList`] deals the tiles out to the CTAs of a grid. With the
//! feature `reference`, [`reference::Attention`](crate::reference::Attention) computes the same in f64.

mod error;
mod mask;
mod problem;
mod sequences;
mod strides;
mod work;

pub use error::AttentionError;
pub use mask::Mask;
pub use problem::{AttentionProblem, Heads, MAX_HEAD_DIM};
pub use sequences::Sequences;
pub use strides::{Operand, Strides};
pub use work::{END, TileShape, WorkList};
