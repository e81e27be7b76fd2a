//! wgmma: accumulators, batches in flight, and the fragments that the epilogue reads.
//!
//! Invariant: nothing reads an accumulator, and nothing releases a slot, while a wgmma that uses it
//! is in flight.
//!
//! [`Operands`] says what a batch multiplies: tiles of slots, or an [`AFragment`] in registers.
//! [`Accumulator`] and [`InFlight`] hold a whole tile; [`Rows`] has a value for each of its rows. [`SplitAccumulator`] splits it along N, so
//! that its epilogue overlaps the next main loop. [`PromotedAccumulator`] adds short sums of 8-bit floats up in f32.
//! [`Fragment`] and [`Fragments`] carry accumulators to epilogue tiles.

mod a_fragment;
mod accumulator;
mod fragment;
mod operand;
mod promoted;
mod rows;
mod scale;
mod split;

pub use a_fragment::{AFragment, AShape, Pack};
pub use accumulator::*;
pub use fragment::*;
pub(crate) use fragment::{COLUMNS, load_fragment, store_fragment, store_words, within};
pub use operand::{MmaStage, MmaTiles, Operands};
pub(crate) use operand::{further, offset_of};
pub use promoted::{LastPart, PromotedAccumulator, PromotedInFlight};
pub use rows::{RowParts, Rows};
pub use scale::PromoteTiles;
pub use split::*;
