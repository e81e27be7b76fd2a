//! Which work a CTA of the persistent grid does, and in which order.
#![forbid(unsafe_code)]

use super::GemmParams;
use pipeline::prelude::*;
use pipeline::roles::{Ready, Roles};

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
pub struct TileScheduler<const BM: usize, const BN: usize, const BK: usize, K> {
    /// The next tile: that in which this cluster's run goes on, then the next whole one.
    tile: u32,
    /// The stage in which the run begins, and 0 from then on.
    k: u32,
    /// Stages of the run that are still to do.
    left: u32,
    cluster: u32,
    clusters: u32,
    at: ClusterCoord<K>,
    p: GemmParams,
}

/// `a * b / c` for `a <= c`, without a product that overflows.
#[inline(always)]
fn share(a: u32, b: u32, c: u32) -> u32 {
    a * (b / c) + a * (b % c) / c
}

impl<const BM: usize, const BN: usize, const BK: usize, K: ClusterShape>
    TileScheduler<BM, BN, BK, K>
{
    const CLUSTER_ROWS: u32 = (BM * K::M) as u32;
    const CLUSTER_COLS: u32 = (BN * K::N) as u32;

    /// Starts at the first work of the CTA's own cluster.
    #[inline(always)]
    pub fn new<R: Roles>(cta: &Ready<R, K>, p: &GemmParams) -> Self {
        let at = cta.coord();
        let new = Self::of(at, at.cluster_id(), at.clusters(), p);
        // The quotients decide how long loops run: the compiler must know that all lanes agree.
        let same = |x| cta.broadcast(x);
        Self { tile: same(new.tile), k: same(new.k), left: same(new.left), ..new }
    }

    /// The work of CTA `at` of cluster `cluster` of `clusters`, on the host, which has no CTA to ask.
    #[cfg(not(target_arch = "nvptx64"))]
    #[must_use]
    pub fn on_host(at: ClusterCoord<K>, cluster: u32, clusters: u32, p: &GemmParams) -> Self {
        assert!(cluster < clusters, "a grid of {clusters} clusters has no cluster {cluster}");
        Self::of(at, cluster, clusters, p)
    }

    #[inline(always)]
    fn of(at: ClusterCoord<K>, cluster: u32, clusters: u32, p: &GemmParams) -> Self {
        let tile = p.streamed + cluster;
        let mut scheduler = Self { tile, k: 0, left: 0, cluster, clusters, at, p: *p };
        let (stages, runs) = (p.streamed * scheduler.k_tiles(), scheduler.runs());
        if cluster < runs {
            let number = runs - 1 - cluster;
            let start = share(number, stages, runs);
            scheduler.left = share(number + 1, stages, runs) - start;
            scheduler.tile = start / scheduler.k_tiles();
            scheduler.k = start % scheduler.k_tiles();
        }
        scheduler
    }

    /// Stages of a tile.
    #[inline(always)]
    fn k_tiles(&self) -> u32 {
        self.p.k.div_ceil(BK as u32)
    }

    /// Rows of cluster tiles.
    #[inline(always)]
    fn tiles_m(&self) -> u32 {
        self.p.m.div_ceil(Self::CLUSTER_ROWS)
    }

    /// Columns of cluster tiles.
    #[inline(always)]
    fn tiles_n(&self) -> u32 {
        self.p.n.div_ceil(Self::CLUSTER_COLS)
    }

    /// Whole tiles of the cluster that has most of them.
    #[inline(always)]
    pub fn rounds(&self) -> u32 {
        (self.tiles_m() * self.tiles_n() - self.p.streamed).div_ceil(self.clusters)
    }

    /// Whether the work is a whole tile, of those that all clusters compute in turn.
    #[inline(always)]
    pub fn in_turn(&self, work: &WorkTile) -> bool {
        work.tile >= self.p.streamed
    }

    /// How many runs there are. None is empty: the parts of a tile are those of runs side by side.
    #[inline(always)]
    fn runs(&self) -> u32 {
        self.clusters.min(self.p.streamed * self.k_tiles())
    }

    /// This CTA's number in the grid.
    #[inline(always)]
    pub fn cta(&self) -> u32 {
        self.cluster * K::SIZE as u32 + self.at.rank()
    }

    /// The CTA that sums part `i` of the others of a tile that this one finishes. The runs lie
    /// backwards in the grid.
    #[inline(always)]
    pub fn other(&self, i: u32) -> u32 {
        self.cta() - (1 + i) * K::SIZE as u32
    }

    /// How many clusters sum the rest of a tile that this one finishes.
    #[inline(always)]
    pub fn others(&self, work: &WorkTile) -> u32 {
        if work.k_tiles == self.k_tiles() {
            return 0;
        }
        // Run r starts at stage r * streamed * k_tiles / runs: the last one that starts before the
        // tile's end has the tile's last stage.
        let runs = self.runs();
        let last = ((work.tile + 1) * runs).div_ceil(self.p.streamed) - 1;
        last - (runs - 1 - self.cluster)
    }

    /// Where this CTA's part of the cluster tile lies.
    #[inline(always)]
    pub fn origin(&self, work: &WorkTile) -> TileOrigin {
        let group = self.p.group.max(1);
        let (m, n) = Self::place(work.tile, self.tiles_m(), self.tiles_n(), group);
        TileOrigin {
            row: m * Self::CLUSTER_ROWS + self.at.m() * BM as u32,
            col: n * Self::CLUSTER_COLS + self.at.n() * BN as u32,
        }
    }

    /// Row and column of cluster tile `index` in units of cluster tiles.
    #[inline(always)]
    fn place(index: u32, tiles_m: u32, tiles_n: u32, group: u32) -> (u32, u32) {
        let per_group = group * tiles_n;
        let first = index / per_group * group;
        let rows = (tiles_m - first).min(group);
        let inside = index % per_group;
        (first + inside % rows, inside / rows)
    }
}

impl<const BM: usize, const BN: usize, const BK: usize, K: ClusterShape> Iterator
    for TileScheduler<BM, BN, BK, K>
{
    type Item = WorkTile;

    #[inline(always)]
    fn next(&mut self) -> Option<WorkTile> {
        let all = self.k_tiles();
        if self.left > 0 {
            let work =
                WorkTile { tile: self.tile, k: self.k, k_tiles: self.left.min(all - self.k) };
            self.left -= work.k_tiles;
            self.k = 0;
            let whole = self.p.streamed + self.cluster;
            self.tile = if self.left > 0 { self.tile + 1 } else { whole };
            return Some(work);
        }
        let tile = self.tile;
        if tile >= self.tiles_m() * self.tiles_n() {
            return None;
        }
        self.tile += self.clusters;
        Some(WorkTile { tile, k: 0, k_tiles: all })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    type Alone = Cluster<1, 1>;
    type Scheduler = TileScheduler<128, 128, 64, Alone>;

    fn params(tiles_m: u32, tiles_n: u32, k_tiles: u32, group: u32, streamed: u32) -> GemmParams {
        let (m, n, k) = (tiles_m * 128, tiles_n * 128 - 5, k_tiles * 64 - 3);
        GemmParams { m, n, k, group, streamed, early: 0, alpha: 1.0, beta: 0.0 }
    }

    proptest! {
        #[test]
        fn every_cluster_tile_is_placed_once(
            tiles_m in 1u32..40, tiles_n in 1u32..40, group in 1u32..12,
        ) {
            let all: BTreeSet<_> = (0..tiles_m * tiles_n)
                .map(|i| Scheduler::place(i, tiles_m, tiles_n, group))
                .collect();
            prop_assert_eq!(all.len() as u32, tiles_m * tiles_n);
            prop_assert!(all.iter().all(|&(m, n)| m < tiles_m && n < tiles_n));
        }

        /// Each stage of each tile is summed once; the parts of a tile are given to the CTA that
        /// finishes it, by the CTAs that it will ask, of which each gives once and before it takes.
        #[test]
        fn the_parts_of_a_tile_add_up(
            tiles_m in 1u32..7, tiles_n in 1u32..7, k_tiles in 1u32..40, group in 1u32..4,
            clusters in 1u32..40, whole in 0u32..3,
        ) {
            let tiles = tiles_m * tiles_n;
            let streamed = tiles.saturating_sub(whole * clusters);
            let p = params(tiles_m, tiles_n, k_tiles, group, streamed);
            let mut summed = BTreeMap::<_, BTreeSet<u32>>::new();
            let (mut given, mut taken) = (BTreeSet::new(), BTreeSet::new());
            for cluster in 0..clusters {
                let mut scheduler = Scheduler::on_host(Alone::coord(0), cluster, clusters, &p);
                let (mut first, mut in_turn) = (true, 0);
                while let Some(work) = scheduler.next() {
                    prop_assert!(work.k_tiles > 0);
                    let stages = work.k..=work.k + work.k_tiles;
                    prop_assert!(stages.contains(&work.nearly_done()));
                    in_turn += u32::from(scheduler.in_turn(&work));
                    let at = scheduler.origin(&work);
                    for k in work.k..work.k + work.k_tiles {
                        prop_assert!(summed.entry(at).or_default().insert(k));
                    }
                    if work.finishes() {
                        for i in 0..scheduler.others(&work) {
                            prop_assert!(scheduler.other(i) < scheduler.cta());
                            prop_assert!(taken.insert((scheduler.other(i), at)));
                        }
                    } else {
                        prop_assert!(first, "gives before it takes, and once");
                        given.insert((scheduler.cta(), at));
                    }
                    first = false;
                }
                // The clusters with one less are the last.
                let rounds = scheduler.rounds();
                prop_assert!(in_turn == rounds || in_turn + 1 == rounds && cluster > 0);
            }
            prop_assert_eq!(given, taken);
            prop_assert_eq!(summed.len() as u32, tiles);
            prop_assert!(summed.values().all(|k| k.len() as u32 == k_tiles));
        }
    }
}
