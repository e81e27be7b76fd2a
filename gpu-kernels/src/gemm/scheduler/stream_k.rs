//! The stream-K scheduler: all clusters get equal shares of the k tiles of some tiles. The other tiles are
//! data-parallel.

use super::{Group, TileOrigin, TileScheduler, TileSchedulerParams, WorkTile};
use isa::kernel::KernelArg;
use isa::wgmma::{M64, Shape};
use pipeline::cta::{ClusterCoord, ClusterShape, Role};
use pipeline::grid::{Part, Partials, PeerCtas};
use pipeline::prelude::*;

/// The kernel argument of [`StreamK`].
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct StreamKArgs<'a> {
    /// The division into tiles and runs.
    pub params: TileSchedulerParams,
    /// Where a CTA stores its partials of a tile that another CTA finishes.
    pub workspace: Partials<'a>,
}

/// Splits the K of the first `streamed` cluster tiles among all clusters. (CUTLASS
/// `PersistentTileSchedulerSm90StreamK`.)
///
/// Cluster tiles are numbered in raster groups ([`TileSchedulerParams`]). The k tiles of the split tiles are laid end
/// to end and cut into equal runs, one for each cluster. If the runs can be divided evenly among the tiles, they are: each tile
/// is cut into as many runs. The other tiles are data-parallel: after its run, cluster i of g computes tiles `streamed` + i,
/// `streamed` + i + g, and so on.
///
/// ```text
///   streamed = 2 tiles of 6 k tiles, 3 clusters:   tile 0 |aaaabb|  tile 1 |bbcccc|
///   b stores its partials of tile 0 for a, and adds those of c to its own sums of tile 1
/// ```
///
/// There is no deadlock. If a run begins inside a tile, the cluster stores its partials of that tile first, before it
/// comes to tiles that it finishes. A cluster waits only for clusters with lower numbers in the grid, which have
/// started no later. So a cluster that another one waits for is running, and does not wait before it stores.
///
/// The scheduler keeps few values in registers, because the accumulators leave few. It computes the rest anew for each
/// tile, from the parameters in constant memory.
#[derive(Clone)]
pub struct StreamK<Cl> {
    /// The next k tile of this cluster's run, counted over all split tiles.
    position: u32,
    /// The next data-parallel tile.
    tile: u32,
    cluster: u32,
    at: ClusterCoord<Cl>,
    p: TileSchedulerParams,
    workspace: Partials<'static>,
}

impl<Cl: ClusterShape> StreamK<Cl> {
    /// The scheduler of CTA `at` of cluster `cluster`, for the host, which has no CTA to take the numbers from.
    #[cfg(not(target_arch = "nvptx64"))]
    #[must_use]
    pub fn on_host(at: ClusterCoord<Cl>, cluster: u32, p: &TileSchedulerParams) -> Self {
        let clusters = p.clusters;
        assert!(cluster < clusters, "a grid of {clusters} clusters has no cluster {cluster}");
        Self::of(at, cluster, &StreamKArgs { params: *p, workspace: Partials::EMPTY })
    }

    #[isa::forceinline]
    fn of(at: ClusterCoord<Cl>, cluster: u32, args: &StreamKArgs<'static>) -> Self {
        let p = args.params;
        let (position, tile) = (p.start(cluster + 1), p.streamed + cluster);
        Self { position, tile, cluster, at, p, workspace: args.workspace }
    }

    /// The first k tile after this cluster's run.
    #[isa::forceinline]
    fn end(&self) -> u32 {
        self.p.start(self.cluster)
    }

    /// This CTA's number in the grid.
    #[isa::forceinline]
    fn cta(&self) -> u32 {
        self.cluster * Cl::SIZE as u32 + self.at.rank()
    }

    /// The CTAs whose partials complete a tile that this CTA finishes, in the order of K. Clusters with lower numbers
    /// have later k tiles.
    #[isa::forceinline]
    pub fn peers(&self, work: &WorkTile) -> PeerCtas {
        let (mut summed, mut count) = (work.k + work.k_tiles, 0);
        if let Some(parts) = self.p.even_parts().filter(|_| summed < self.p.k_tiles()) {
            (count, summed) = (parts - 1, self.p.k_tiles());
        }
        while summed < self.p.k_tiles() {
            count += 1;
            summed += self.p.run_of(self.cluster - count);
        }
        let stride = Cl::SIZE as u32;
        PeerCtas { first: self.cta().wrapping_sub(stride), stride, count }
    }
}

impl<Cl: ClusterShape> TileScheduler<Cl> for StreamK<Cl> {
    type Args = StreamKArgs<'static>;
    const SPLITS_K: bool = true;

    #[isa::forceinline]
    fn new(at: ClusterCoord<Cl>, args: &StreamKArgs<'static>) -> Self {
        Self::of(at, at.cluster_id(), args)
    }

    #[isa::forceinline]
    fn origin(&self, work: &WorkTile, bm: usize, bn: usize) -> TileOrigin {
        self.p.origin(work.index, self.at, bm, bn)
    }

    #[isa::forceinline]
    fn is_data_parallel(&self, work: &WorkTile) -> bool {
        work.index >= self.p.streamed
    }

    #[isa::forceinline]
    fn fixup<const N: usize, R: Role>(
        &self,
        group: &Warpgroup<R, Cl>,
        work: &WorkTile,
        part: Part<N>,
        mut sum: Accumulator<N>,
        epilogue: impl FnOnce(Accumulator<N>),
    ) where
        M64<N>: Shape,
    {
        if !work.computes_epilogue() {
            return self.workspace.store_part(group, self.cta(), part, sum);
        }
        let peers = self.peers(work);
        if peers.count > 0 {
            self.workspace.reduce_part(group, peers, part, &mut sum);
        }
        epilogue(sum);
    }
}

impl<Cl: ClusterShape> Iterator for StreamK<Cl> {
    type Item = WorkTile;

    #[isa::forceinline]
    fn next(&mut self) -> Option<WorkTile> {
        let (all, end) = (self.p.k_tiles(), self.end());
        let mut work = WorkTile { index: self.tile, k: 0, k_tiles: all, group: Group::ONE };
        if self.position < end {
            (work.index, work.k) = self.p.k_tiles.divmod(self.position);
            let done = self.position - work.k + all;
            let to = if end < done { end } else { done };
            work.k_tiles = to - self.position;
            self.position = to;
        } else {
            self.tile += self.p.clusters;
        }
        (work.index < self.p.tiles).then_some(work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    type Alone = Cluster<1, 1>;
    type Scheduler = StreamK<Alone>;

    proptest! {
        /// Each k tile of each tile is summed once. The CTA that finishes a tile takes partials from exactly the CTAs
        /// that store partials of this tile. Each CTA stores at most once, and before it takes any. If the runs can be divided
        /// evenly among the tiles, none reaches into two.
        #[test]
        fn the_parts_of_a_tile_add_up(
            tiles_m in 1u32..7, tiles_n in 1u32..7, k_tiles in 1u32..40, group in 1u32..4,
            clusters in 1u32..40, whole in 0u32..3,
        ) {
            let tiles = tiles_m * tiles_n;
            let streamed = tiles.saturating_sub(whole * clusters);
            let tiles_mn = [tiles_m, tiles_n];
            let p = TileSchedulerParams::new(tiles_mn, k_tiles, group, clusters, streamed);
            let mut summed = BTreeMap::<_, BTreeSet<u32>>::new();
            let (mut given, mut taken) = (BTreeSet::new(), BTreeSet::new());
            let mut runs = BTreeSet::new();
            let even = streamed > 0 && p.runs.is_multiple_of(streamed);
            for cluster in 0..clusters {
                let mut scheduler = Scheduler::on_host(Alone::coord(0), cluster, &p);
                let (mut first, mut in_turn, mut run, mut split) = (true, 0, 0, 0);
                while let Some(work) = scheduler.next() {
                    prop_assert!(work.k_tiles > 0);
                    if scheduler.is_data_parallel(&work) {
                        in_turn += 1;
                    } else {
                        run += work.k_tiles;
                        split += 1;
                    }
                    let at = scheduler.origin(&work, 128, 128);
                    for k in work.k..work.k + work.k_tiles {
                        prop_assert!(summed.entry(at).or_default().insert(k));
                    }
                    if work.computes_epilogue() {
                        for other in scheduler.peers(&work).iter() {
                            prop_assert!(other < scheduler.cta());
                            prop_assert!(taken.insert((other, at)));
                        }
                    } else {
                        prop_assert!(first, "gives before it takes, and once");
                        given.insert((scheduler.cta(), at));
                    }
                    first = false;
                }
                prop_assert!(!even || split <= 1, "cluster {} has {} split tiles", cluster, split);
                runs.insert(run);
                // Some clusters may have one data-parallel tile less, but never cluster 0.
                let rounds = scheduler.p.rounds;
                prop_assert!(in_turn == rounds || in_turn + 1 == rounds && cluster > 0);
            }
            // Runs differ by at most one k tile. With fewer k tiles than clusters, a run has one or none.
            let (short, long) = (runs.first().unwrap(), runs.last().unwrap());
            prop_assert!(long - short <= 1, "{runs:?}");
            prop_assert_eq!(given, taken);
            prop_assert_eq!(summed.len() as u32, tiles);
            prop_assert!(summed.values().all(|k| k.len() as u32 == k_tiles));
        }
    }
}
