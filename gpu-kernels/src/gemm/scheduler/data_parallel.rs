//! The data-parallel scheduler: every tile is computed by one cluster.
#![forbid(unsafe_code)]

use super::{Group, TileOrigin, TileScheduler, TileSchedulerParams, WorkTile};
use isa::wgmma::{M64, Shape};
use pipeline::cta::{ClusterCoord, ClusterShape, Role};
use pipeline::grid::Part;
use pipeline::prelude::*;

/// Cluster i of g takes cluster tiles i, i + g, and so on. (CUTLASS `PersistentTileSchedulerSm90`.)
#[derive(Clone, Debug)]
pub struct DataParallel<Cl> {
    /// The next cluster tile.
    next: u32,
    at: ClusterCoord<Cl>,
    p: TileSchedulerParams,
}

impl<Cl: ClusterShape> TileScheduler<Cl> for DataParallel<Cl> {
    type Args = TileSchedulerParams;
    const SPLITS_K: bool = false;

    #[isa::forceinline]
    fn new(at: ClusterCoord<Cl>, p: &TileSchedulerParams) -> Self {
        Self { next: at.cluster_id(), at, p: *p }
    }

    #[isa::forceinline]
    fn origin(&self, work: &WorkTile, bm: usize, bn: usize) -> TileOrigin {
        self.p.origin(work.index, self.at, bm, bn)
    }

    #[isa::forceinline]
    fn is_data_parallel(&self, _work: &WorkTile) -> bool {
        true
    }

    #[isa::forceinline]
    fn fixup<const N: usize, R: Role>(
        &self,
        _group: &Warpgroup<R, Cl>,
        _work: &WorkTile,
        _part: Part<N>,
        sum: Accumulator<N>,
        epilogue: impl FnOnce(Accumulator<N>),
    ) where
        M64<N>: Shape,
    {
        epilogue(sum);
    }
}

impl<Cl: ClusterShape> Iterator for DataParallel<Cl> {
    type Item = WorkTile;

    #[isa::forceinline]
    fn next(&mut self) -> Option<WorkTile> {
        // `next` is below 2^31, so this adds 0. The sum keeps the number of k tiles in a register. Otherwise ptxas
        // loads it from constant memory in every iteration of the producer's and the consumers' loop over k tiles.
        let k_tiles = self.p.k_tiles() + (self.next >> 31);
        let work = WorkTile { index: self.next, k: 0, k_tiles, group: Group::ONE };
        self.next += self.p.clusters;
        (work.index < self.p.tiles).then_some(work)
    }
}
