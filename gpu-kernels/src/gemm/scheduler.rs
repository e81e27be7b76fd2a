//! Which work a CTA of the persistent grid does, and in which order.
#![forbid(unsafe_code)]

mod params;

pub use params::TileSchedulerParams;

use pipeline::prelude::*;

/// A piece of work: one tile of D, and the columns of A and B that this CTA sums for it, in units of
/// main-loop stages. (CUTLASS `WorkTileInfo`.)
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorkTile {
    /// Number of the cluster tile.
    tile: u32,
    /// First stage.
    pub k: u32,
    /// How many stages, at least one.
    pub k_tiles: u32,
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

impl WorkTile {
    /// The stage from which on it is nearly done.
    #[inline(always)]
    pub fn nearly_done(&self) -> u32 {
        self.k + self.k_tiles.saturating_sub(NEARLY)
    }

    /// Whether this CTA writes the tile to D, after taking what the others have summed. If not, it
    /// gives its sums away.
    #[inline(always)]
    pub fn finishes(&self) -> bool {
        self.k == 0
    }
}

/// Stages before the end of a piece of work at which its CTA is nearly done: what is loaded from there on
/// is not read before others have heard of it.
const NEARLY: u32 = 8;

/// Walks the work of one CTA, the same for every role (CUTLASS
/// `PersistentTileSchedulerSm90StreamK`).
///
/// Cluster tiles are numbered in groups of `group` rows, column by column inside a group, so that
/// the tiles in flight at one time share rows of A and columns of B in the L2 cache. The first
/// `streamed` of them are shared by all clusters: laid end to end, their stages are cut into equal
/// runs, one for each cluster. The others are taken whole, in turn, `clusters` apart.
///
/// ```text
///   streamed = 2 tiles of 6 stages, 3 clusters:   tile 0 |aaaabb|  tile 1 |bbcccc|
///   b gives its sums of tile 0 to a, and takes those of tile 1 from c
/// ```
///
/// A run begins with the end of a tile, which is given away, before it comes to tiles that it
/// finishes, and a cluster takes only from clusters of lower index in the grid, which have started
/// no later: nobody waits for work that nobody does.
///
/// It keeps little: what follows from the parameters, which lie in constant memory, is computed anew
/// for each tile, for the accumulators leave few registers.
#[derive(Clone, Debug)]
pub struct TileScheduler<const BM: usize, const BN: usize, K> {
    /// Where this cluster's run goes on: a stage, of those of all shared tiles.
    stage: u32,
    /// The next whole tile.
    tile: u32,
    cluster: u32,
    at: ClusterCoord<K>,
    p: TileSchedulerParams,
}

impl<const BM: usize, const BN: usize, K: ClusterShape> TileScheduler<BM, BN, K> {
    const CLUSTER_ROWS: u32 = (BM * K::M) as u32;
    const CLUSTER_COLS: u32 = (BN * K::N) as u32;

    /// Starts at the first work of the cluster that `at` is in. (Each role makes its own: what they
    /// shared would be in the same registers of all.)
    #[inline(always)]
    pub fn new(at: ClusterCoord<K>, p: &TileSchedulerParams) -> Self {
        Self::of(at, at.cluster_id(), p)
    }

    /// The work of CTA `at` of cluster `cluster` of `clusters`, on the host, which has no CTA to ask.
    #[cfg(not(target_arch = "nvptx64"))]
    #[must_use]
    pub fn on_host(at: ClusterCoord<K>, cluster: u32, p: &TileSchedulerParams) -> Self {
        let clusters = p.clusters;
        assert!(cluster < clusters, "a grid of {clusters} clusters has no cluster {cluster}");
        Self::of(at, cluster, p)
    }

    #[inline(always)]
    fn of(at: ClusterCoord<K>, cluster: u32, p: &TileSchedulerParams) -> Self {
        let stage = p.start(cluster + 1);
        Self { stage, tile: p.streamed + cluster, cluster, at, p: *p }
    }

    /// The stage behind this cluster's run.
    #[inline(always)]
    fn end(&self) -> u32 {
        self.p.start(self.cluster)
    }

    /// Whole tiles of the cluster that has most of them.
    #[inline(always)]
    pub fn rounds(&self) -> u32 {
        self.p.rounds
    }

    /// Whether the work is a whole tile, of those that all clusters compute in turn.
    #[inline(always)]
    pub fn in_turn(&self, work: &WorkTile) -> bool {
        work.tile >= self.p.streamed
    }

    /// This CTA's number in the grid.
    #[inline(always)]
    pub fn cta(&self) -> u32 {
        self.cluster * K::SIZE as u32 + self.at.rank()
    }

    /// The CTAs that sum the rest of a tile that this one finishes. The runs lie backwards in the grid.
    #[inline(always)]
    pub fn others(&self, work: &WorkTile) -> Others<K> {
        Others { cluster: self.cluster, summed: work.k + work.k_tiles, at: self.at, p: self.p }
    }

    /// Where this CTA's part of the cluster tile lies.
    #[inline(always)]
    pub fn origin(&self, work: &WorkTile) -> TileOrigin {
        let (m, n) = self.p.place(work.tile);
        TileOrigin {
            row: m * Self::CLUSTER_ROWS + self.at.m() * BM as u32,
            col: n * Self::CLUSTER_COLS + self.at.n() * BN as u32,
        }
    }
}

impl<const BM: usize, const BN: usize, K: ClusterShape> Iterator for TileScheduler<BM, BN, K> {
    type Item = WorkTile;

    #[inline(always)]
    fn next(&mut self) -> Option<WorkTile> {
        let (all, end) = (self.p.k_tiles(), self.end());
        let mut work = WorkTile { tile: self.tile, k: 0, k_tiles: all };
        if self.stage < end {
            (work.tile, work.k) = self.p.k_tiles.divmod(self.stage);
            let done = self.stage - work.k + all;
            let to = if end < done { end } else { done };
            work.k_tiles = to - self.stage;
            self.stage = to;
        } else {
            self.tile += self.p.clusters;
        }
        (work.tile < self.p.tiles).then_some(work)
    }
}

/// The CTAs of [`TileScheduler::others`].
pub struct Others<K> {
    /// Whose cluster sums the stages before `summed`.
    cluster: u32,
    summed: u32,
    at: ClusterCoord<K>,
    p: TileSchedulerParams,
}

impl<K: ClusterShape> Iterator for Others<K> {
    type Item = u32;

    #[inline(always)]
    fn next(&mut self) -> Option<u32> {
        if self.summed >= self.p.k_tiles() {
            return None;
        }
        self.cluster -= 1;
        self.summed += self.p.run_of(self.cluster);
        Some(self.cluster * K::SIZE as u32 + self.at.rank())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    type Alone = Cluster<1, 1>;
    type Scheduler = TileScheduler<128, 128, Alone>;

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
                    if scheduler.in_turn(&work) {
                        in_turn += 1;
                    } else {
                        run += work.k_tiles;
                    }
                    let at = scheduler.origin(&work);
                    for k in work.k..work.k + work.k_tiles {
                        prop_assert!(summed.entry(at).or_default().insert(k));
                    }
                    if work.finishes() {
                        for other in scheduler.others(&work) {
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
