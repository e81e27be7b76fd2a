//! Tensor memory, for Blackwell: accumulators that one thread multiplies into and a warp group reads.
//!
//! **Nothing of this module has ever run on a chip.** The SM model runs it, and ptxas assembles it for sm_100a and
//! sm_103a.
//!
//! Invariant: an accumulator is multiplied into only after all its readers have released it, and read only after the
//! multiplications have completed. Tensor memory is allocated before its first use, and freed once, after its last.
//!
//! ```text
//!                   acquire: wait empty         wait: wait full
//!   one thread  ─────────────────────► sums i ─────────────────► four warps
//!                   commit: full, when multiplied    release: empty, when loaded
//! ```
//!
//! [`TensorAccumulators`] is the ring of accumulators (CUTLASS `PipelineUmmaAsync`, with the allocator of tensor memory).
//! With two stages, the next tile is multiplied while this one is stored. Its operands come from a
//! [`Ring`](crate::ring::Ring) whose readers are [`Umma`](crate::ring::Umma). [`TensorStores`] are store buffers of 128
//! rows.

mod accumulators;
mod layout;
mod multiply;
mod read;
mod scaled;
mod store;

pub use accumulators::{
    AccumulatorEnds, AccumulatorProducer, AccumulatorProducerEnd, AccumulatorReaderEnd,
    TensorAccumulators,
};
pub use multiply::{EmptyAccumulator, TensorSum, UmmaTiles};
pub use read::{AccumulatorReader, FullAccumulator, STRIP_COLUMNS, Strip};
pub use scaled::FACTOR_COLUMNS;
pub use store::{TensorStoreEnd, TensorStores};

/// Rows of an accumulator: the lanes of tensor memory.
pub const TENSOR_ROWS: usize = 128;
