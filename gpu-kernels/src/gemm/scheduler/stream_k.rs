//! Stream-K: the k tiles of some tiles shared out equally, the other tiles data-parallel.

use super::{TileOrigin, TileScheduler, TileSchedulerParams, WorkTile};
use isa::kernel::KernelArg;
use isa::wgmma::{M64, Shape};
use pipeline::cta::{ClusterCoord, ClusterShape, Role};
use pipeline::grid::{Part, Partials};
use pipeline::prelude::*;

/// What [`StreamK`] gets from the host.
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct StreamKArgs<'a> {
    /// Which work there is.
    pub params: TileSchedulerParams,
    /// Where CTAs leave the sums of tiles that another one finishes.
    pub workspace: Partials<'a>,
}

/// Cluster tiles are numbered in raster groups ([`TileSchedulerParams`]). The k tiles of the first `streamed`
/// of them, laid end to end, are cut into equal runs, one for each cluster. The others are computed whole,
/// `clusters` apart. (CUTLASS `PersistentTileSchedulerSm90StreamK`.)
///
/// ```text
///   streamed = 2 tiles of 6 k tiles, 3 clusters:   tile 0 |aaaabb|  tile 1 |bbcccc|
///   b leaves its sums of tile 0 to a, and adds those of c to its own of tile 1
/// ```
///
/// A run begins with the end of a tile, whose sums are left to another cluster, before it comes to tiles that
/// it finishes. A cluster waits only for clusters with lower numbers in the grid, which have started no later.
/// So nobody waits for work that nobody does.
///
/// It keeps little: what follows from the parameters, which lie in constant memory, is computed anew for each
/// tile, for the accumulators leave few registers.
#[derive(Clone)]
pub struct StreamK<Cl> {
    /// Where this cluster's run goes on: a k tile, of those of all split tiles.
    position: u32,
    /// The next data-parallel tile.
    tile: u32,
    cluster: u32,
    at: ClusterCoord<Cl>,
    p: TileSchedulerParams,
    workspace: Partials<'static>,
}

impl<Cl: ClusterShape> StreamK<Cl> {
    /// The work of CTA `at` of cluster `cluster`, on the host, which has no CTA to ask.
    #[cfg(not(target_arch = "nvptx64"))]
    #[must_use]
    pub fn on_host(at: ClusterCoord<Cl>, cluster: u32, p: &TileSchedulerParams) -> Self {
        let clusters = p.clusters;
        assert!(cluster < clusters, "a grid of {clusters} clusters has no cluster {cluster}");
        Self::of(at, cluster, &StreamKArgs { params: *p, workspace: Partials::EMPTY })
    }

    #[inline(always)]
    fn of(at: ClusterCoord<Cl>, cluster: u32, args: &StreamKArgs<'static>) -> Self {
        let p = args.params;
        let (position, tile) = (p.start(cluster + 1), p.streamed + cluster);
        Self { position, tile, cluster, at, p, workspace: args.workspace }
    }

    /// Behind this cluster's run.
    #[inline(always)]
    fn end(&self) -> u32 {
        self.p.start(self.cluster)
    }

    /// This CTA's number in the grid.
    #[inline(always)]
    fn cta(&self) -> u32 {
        self.cluster * Cl::SIZE as u32 + self.at.rank()
    }

    /// The CTAs that sum the rest of a tile that this one finishes. The runs lie backwards in the grid.
    #[inline(always)]
    pub fn peers(&self, work: &WorkTile) -> PeerCtas<Cl> {
        PeerCtas { cluster: self.cluster, summed: work.k + work.k_tiles, at: self.at, p: self.p }
    }
}

impl<Cl: ClusterShape> TileScheduler<Cl> for StreamK<Cl> {
    type Args = StreamKArgs<'static>;
    const SPLITS_K: bool = true;

    #[inline(always)]
    fn new(at: ClusterCoord<Cl>, args: &StreamKArgs<'static>) -> Self {
        Self::of(at, at.cluster_id(), args)
    }

    #[inline(always)]
    fn origin(&self, work: &WorkTile, bm: usize, bn: usize) -> TileOrigin {
        self.p.origin(work.index, self.at, bm, bn)
    }

    #[inline(always)]
    fn rounds(&self) -> u32 {
        self.p.rounds
    }

    #[inline(always)]
    fn is_data_parallel(&self, work: &WorkTile) -> bool {
        work.index >= self.p.streamed
    }

    #[inline(always)]
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
        for peer in self.peers(work) {
            self.workspace.reduce_part(group, peer, part, &mut sum);
        }
        epilogue(sum);
    }
}

impl<Cl: ClusterShape> Iterator for StreamK<Cl> {
    type Item = WorkTile;

    #[inline(always)]
    fn next(&mut self) -> Option<WorkTile> {
        let (all, end) = (self.p.k_tiles(), self.end());
        let mut work = WorkTile { index: self.tile, k: 0, k_tiles: all };
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

/// The CTAs of [`StreamK::peers`].
pub struct PeerCtas<Cl> {
    /// Whose cluster sums the k tiles before `summed`.
    cluster: u32,
    summed: u32,
    at: ClusterCoord<Cl>,
    p: TileSchedulerParams,
}

impl<Cl: ClusterShape> Iterator for PeerCtas<Cl> {
    type Item = u32;

    #[inline(always)]
    fn next(&mut self) -> Option<u32> {
        if self.summed >= self.p.k_tiles() {
            return None;
        }
        self.cluster -= 1;
        self.summed += self.p.run_of(self.cluster);
        Some(self.cluster * Cl::SIZE as u32 + self.at.rank())
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
        /// Each stage of each tile is summed once; the parts of a tile are given to the CTA that
        /// finishes it, by the CTAs that it will ask, of which each gives once and before it takes.
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
            for cluster in 0..clusters {
                let mut scheduler = Scheduler::on_host(Alone::coord(0), cluster, &p);
                let (mut first, mut in_turn, mut run) = (true, 0, 0);
                while let Some(work) = scheduler.next() {
                    prop_assert!(work.k_tiles > 0);
                    let stages = work.k..=work.k + work.k_tiles;
                    prop_assert!(stages.contains(&work.nearly_done()));
                    if scheduler.is_data_parallel(&work) {
                        in_turn += 1;
                    } else {
                        run += work.k_tiles;
                    }
                    let at = scheduler.origin(&work, 128, 128);
                    for k in work.k..work.k + work.k_tiles {
                        prop_assert!(summed.entry(at).or_default().insert(k));
                    }
                    if work.computes_epilogue() {
                        for other in scheduler.peers(&work) {
                            prop_assert!(other < scheduler.cta());
                            prop_assert!(taken.insert((other, at)));
                        }
                    } else {
                        prop_assert!(first, "gives before it takes, and once");
                        given.insert((scheduler.cta(), at));
                    }
                    first = false;
                }
                runs.insert(run);
                // The clusters with one less are the last.
                let rounds = scheduler.rounds();
                prop_assert!(in_turn == rounds || in_turn + 1 == rounds && cluster > 0);
            }
            // Equal runs, but for one stage; fewer stages than clusters are runs of one or none.
            let (short, long) = (runs.first().unwrap(), runs.last().unwrap());
            prop_assert!(long - short <= 1, "{runs:?}");
            prop_assert_eq!(given, taken);
            prop_assert_eq!(summed.len() as u32, tiles);
            prop_assert!(summed.values().all(|k| k.len() as u32 == k_tiles));
        }
    }
}
