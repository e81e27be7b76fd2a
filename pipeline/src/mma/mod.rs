//! wgmma: accumulators, batches in flight, and the fragments that the epilogue reads.
//!
//! Invariant: nothing reads an accumulator, and nothing releases a slot, while a wgmma that uses it
//! is in flight.
//!
//! | type | what it is |
//! |---|---|
//! | [`Operands`] | what a batch multiplies: tiles of slots, or an [`AFragment`] in registers |
//! | [`ByColumns`] | a slot whose product the warp groups divide by columns, not by rows |
//! | [`Accumulator`], [`InFlight`] | the accumulator of a whole tile, and the batch of wgmmas that writes it |
//! | [`Rows`] | one value for each of a thread's rows |
//! | [`SplitAccumulator`] | an accumulator split along N, so that its epilogue overlaps the next main loop |
//! | [`PromotedAccumulator`] | f32 sums of 8-bit floats, to which the tensor cores' sums of each k tile are added |
//! | [`AlternatingAccumulator`] | the same for tiles of up to 144 columns, whose parts are whole k tiles |
//! | [`ColumnValues`] | one value for each column of a tile, loaded before the tile is multiplied |
//! | [`Fragment`], [`Fragments`] | pieces of an accumulator on their way to epilogue tiles |

mod a_fragment;
mod accumulator;
mod alternating;
mod broadcast;
mod by_columns;
mod fragment;
mod operand;
mod promoted;
mod rows;
mod scale;
mod split;

pub use a_fragment::{AFragment, AShape, Pack};
pub use accumulator::*;
pub use alternating::{AlternatingAccumulator, AlternatingInFlight};
pub use broadcast::{ColumnValues, TileOfGroup};
pub use by_columns::ByColumns;
pub use fragment::*;
pub(crate) use fragment::{COLUMNS, load_fragment, store_fragment, store_words, within};
pub use operand::{MmaStage, MmaTiles, Operands};
pub(crate) use operand::{further, of_descriptor, offset_of};
pub use promoted::{LastPart, PromotedAccumulator, PromotedInFlight};
pub use rows::{RowParts, Rows};
pub use scale::PromoteTiles;
pub use split::*;
