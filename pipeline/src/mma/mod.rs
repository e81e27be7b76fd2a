//! wgmma: accumulators, batches in flight, and fragments.

mod accumulator;
mod fragment;
mod split;

pub use accumulator::*;
pub use fragment::*;
pub use split::*;
