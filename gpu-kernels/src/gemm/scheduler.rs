//! The tile scheduler: it decides which work a CTA of the persistent grid does, and in which order. (CUTLASS
//! `PersistentTileScheduler`.)

mod array;
mod batched;
mod data_parallel;
mod grouped;
mod params;
mod stream_k;

pub use array::{Array, ArrayArgs, ArrayParams, ProblemShape};
pub use batched::{Batched, BatchedArgs};
pub use data_parallel::DataParallel;
pub use grouped::{Grouped, GroupedArgs, GroupedParams};
pub use params::TileSchedulerParams;
pub use stream_k::{StreamK, StreamKArgs};

use isa::kernel::{AfterWait, ByValue, KernelArg};
use isa::wgmma::{M64, Shape};
use pipeline::cta::{ClusterCoord, ClusterShape, Role};
use pipeline::grid::Part;
use pipeline::prelude::*;

/// A work tile: one tile of D, and the k tiles that this CTA computes of it. (CUTLASS `WorkTileInfo`.)
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorkTile {
    /// Number of the cluster tile.
    pub index: u32,
    /// First k tile.
    pub k: u32,
    /// Number of k tiles, at least one.
    pub k_tiles: u32,
    /// The group that the tile belongs to: [`Group::ONE`] unless the product is grouped.
    pub group: Group,
}

/// Where a cluster tile lies in a grouped product. A group is the rows of A and D that one matrix of B multiplies.
/// (CUTLASS: a group of `GroupProblemShape`.)
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Group {
    /// Number of the group.
    pub index: u32,
    /// The first row of D of the cluster tile.
    pub row: u32,
    /// One past the last row of D of the group.
    pub end: u32,
}

impl Group {
    /// The only group of a product that is not grouped. It ends where the tensor map of D does.
    pub const ONE: Self = Self { index: 0, row: 0, end: u32::MAX };
}

impl WorkTile {
    /// Whether this CTA computes the tile's epilogue: it has the tile's first k tile. (CUTLASS
    /// `compute_epilogue`.)
    #[isa::forceinline]
    pub fn computes_epilogue(&self) -> bool {
        self.k == 0
    }
}

/// Where a CTA's tile lies in D.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TileOrigin {
    /// First row.
    pub row: u32,
    /// First column.
    pub col: u32,
    /// Number of the matrix in a batch; 0 if there is no batch.
    pub batch: u32,
    /// One past the last row of D that may be stored ([`Group::end`]). Only [`Ragged`](super::output::Ragged) reads it:
    /// otherwise the tensor map of D says where the rows end.
    pub end: u32,
}

impl TileOrigin {
    /// The same columns, `rows` further down.
    #[isa::forceinline]
    #[must_use]
    pub fn below(self, rows: usize) -> Self {
        Self { row: self.row + rows as u32, ..self }
    }

    /// The same rows, `columns` further to the right.
    #[isa::forceinline]
    #[must_use]
    pub fn right_by(self, columns: usize) -> Self {
        Self { col: self.col + columns as u32, ..self }
    }
}

/// Iterates over the work of one CTA. Every role gets the same sequence.
///
/// Each role makes its own scheduler. A shared one would occupy the same registers in all roles.
pub trait TileScheduler<Cl: ClusterShape>: Iterator<Item = WorkTile> + Clone {
    /// The kernel argument that the host passes to the scheduler.
    type Args: ByValue + KernelArg + AfterWait;
    /// Whether CTAs may split the k tiles of a tile. If not, every work tile is a whole tile, and begins with k tile
    /// 0.
    const SPLITS_K: bool;

    /// The scheduler of the CTA at `at`. The iteration starts at its first work tile.
    fn new(at: ClusterCoord<Cl>, args: &Self::Args) -> Self;

    /// Where this CTA's tile of `bm` x `bn` elements lies in D.
    fn origin(&self, work: &WorkTile, bm: usize, bn: usize) -> TileOrigin;

    /// Whether the work is a data-parallel tile. A CTA computes such a tile alone.
    fn is_data_parallel(&self, work: &WorkTile) -> bool;

    /// Adds up the partials of a split tile. (CUTLASS `fixup`.)
    ///
    /// The CTA that computes the epilogue loads and reduces the partials of the others, in a fixed order, and calls
    /// `epilogue` with the total. Every other CTA stores its partials and does not call `epilogue`. `part` says which
    /// columns of the tile `sum` has.
    fn fixup<const N: usize, R: Role>(
        &self,
        group: &Warpgroup<R, Cl>,
        work: &WorkTile,
        part: Part<N>,
        sum: Accumulator<N>,
        epilogue: impl FnOnce(Accumulator<N>),
    ) where
        M64<N>: Shape;
}
