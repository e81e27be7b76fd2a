//! wgmma: accumulators, batches in flight, and the fragments that the epilogue reads.
//!
//! Invariant: nothing reads an accumulator, and nothing releases a slot, while a wgmma that uses it
//! is in flight.
//!
//! [`Accumulator`] and [`InFlight`] hold a whole tile. [`SplitAccumulator`] splits it along N, so
//! that its epilogue overlaps the next main loop. [`Fragment`] and [`Fragments`] carry accumulators
//! to epilogue tiles.

mod accumulator;
mod fragment;
mod split;

pub use accumulator::*;
pub use fragment::*;
pub(crate) use fragment::{COLUMNS, within};
pub use split::*;
