//! The scheduler seam: which work a CTA of the persistent grid does, and in which order. (CUTLASS
//! `PersistentTileScheduler`.)

mod data_parallel;
mod params;
mod stream_k;

pub use data_parallel::DataParallel;
pub use params::TileSchedulerParams;
pub use stream_k::{StreamK, StreamKArgs};

use isa::kernel::{AfterWait, ByValue, KernelArg};
use isa::wgmma::{M64, Shape};
use pipeline::cta::{ClusterCoord, ClusterShape, Role};
use pipeline::grid::Part;
use pipeline::prelude::*;

/// A piece of work: one tile of D, and the k tiles that this CTA sums for it. (CUTLASS `WorkTileInfo`.)
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorkTile {
    /// Number of the cluster tile.
    pub index: u32,
    /// First k tile.
    pub k: u32,
    /// How many k tiles, at least one.
    pub k_tiles: u32,
}

impl WorkTile {
    /// K tiles before the end of a piece of work at which its CTA is nearly done: what is loaded from there
    /// on is not read before other CTAs have heard of it.
    const NEARLY: u32 = 8;

    /// The k tile from which on the work is nearly done.
    #[inline(always)]
    pub fn nearly_done(&self) -> u32 {
        self.k + self.k_tiles.saturating_sub(Self::NEARLY)
    }

    /// Whether this CTA computes the tile's epilogue: it has the tile's first k tile. (CUTLASS
    /// `compute_epilogue`.)
    #[inline(always)]
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
}

impl TileOrigin {
    /// The same columns, `rows` further down.
    #[inline(always)]
    #[must_use]
    pub fn below(self, rows: usize) -> Self {
        Self { row: self.row + rows as u32, ..self }
    }

    /// The same rows, `columns` further to the right.
    #[inline(always)]
    #[must_use]
    pub fn right_by(self, columns: usize) -> Self {
        Self { col: self.col + columns as u32, ..self }
    }
}

/// Walks the work of one CTA, the same for every role. Each role makes its own: what they shared would be in
/// the same registers of all.
pub trait TileScheduler<Cl: ClusterShape>: Iterator<Item = WorkTile> + Clone {
    /// What the host tells it: an argument of the kernel.
    type Args: ByValue + KernelArg + AfterWait;
    /// Whether CTAs may share the k tiles of a tile. If not, every piece of work is a whole tile, and begins
    /// with k tile 0.
    const SPLITS_K: bool;

    /// Starts at the first work of the CTA that stands at `at`.
    fn new(at: ClusterCoord<Cl>, args: &Self::Args) -> Self;

    /// Where the work's tile of `BM` x `BN` elements lies in D.
    fn origin(&self, work: &WorkTile, bm: usize, bn: usize) -> TileOrigin;

    /// How many data-parallel tiles the CTA with most of them computes.
    fn rounds(&self) -> u32;

    /// Whether the work is a data-parallel tile: one that a CTA computes alone.
    fn is_data_parallel(&self, work: &WorkTile) -> bool;

    /// Brings together the sums of a tile whose k tiles several CTAs share, and calls `epilogue` with the sum of
    /// all of them in the one CTA that computes the epilogue. (CUTLASS `fixup`.)
    ///
    /// `part` says which columns of the tile `sum` has. The order of the additions is fixed.
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
