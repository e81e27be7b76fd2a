//! Which work a CTA of the persistent grid does, and in which order.
#![forbid(unsafe_code)]

use super::divmod::FastDivmod;
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

/// What the host knows of the work (CUTLASS `PersistentTileSchedulerSm90StreamKParams`).
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TileSchedulerParams {
    /// Rows of cluster tiles.
    tiles_m: u32,
    /// Cluster tiles.
    tiles: u32,
    /// Stages of a tile.
    k_tiles: FastDivmod,
    /// Cluster tiles of a raster group.
    group: FastDivmod,
    /// Its rows of them.
    rows: FastDivmod,
    /// The rows of the last group.
    last_rows: FastDivmod,
    /// Cluster tiles whose stages all clusters share; the others are computed whole.
    streamed: u32,
    /// Runs into which the stages of those are cut, none of them empty.
    runs: u32,
    /// Stages of a run.
    run: u32,
    /// Of the first that many runs, one more.
    longer: u32,
}

impl TileSchedulerParams {
    /// Of `tiles` rows and columns of cluster tiles of `k_tiles` stages, in raster groups of `group` rows;
    /// `clusters` clusters share the first `streamed` of them.
    #[cfg(not(target_arch = "nvptx64"))]
    #[must_use]
    pub const fn new(
        tiles: [u32; 2],
        k_tiles: u32,
        group: u32,
        clusters: u32,
        streamed: u32,
    ) -> Self {
        let [tiles_m, tiles_n] = tiles;
        let rows = if group == 0 { 1 } else { group };
        let stages = streamed * k_tiles;
        let runs = if clusters < stages { clusters } else { stages };
        let run = match stages.checked_div(runs) {
            Some(run) => run,
            None => 0,
        };
        Self {
            tiles_m,
            tiles: tiles_m * tiles_n,
            k_tiles: FastDivmod::new(k_tiles),
            group: FastDivmod::new(rows * tiles_n),
            rows: FastDivmod::new(rows),
            last_rows: FastDivmod::new(tiles_m % rows),
            streamed,
            runs,
            run,
            longer: stages - runs * run,
        }
    }

    /// Rows of cluster tiles.
    #[inline(always)]
    pub const fn tiles_m(&self) -> u32 {
        self.tiles_m
    }

    /// Cluster tiles.
    #[inline(always)]
    pub const fn tiles(&self) -> u32 {
        self.tiles
    }

    /// Stages of a tile.
    #[inline(always)]
    pub const fn k_tiles(&self) -> u32 {
        self.k_tiles.divisor()
    }

    /// The first stage of run `number`.
    #[inline(always)]
    fn start(&self, number: u32) -> u32 {
        number * self.run + number.min(self.longer)
    }

    /// The run that has stage `stage`.
    #[inline(always)]
    fn run_of(&self, stage: u32) -> u32 {
        let in_longer = self.longer * (self.run + 1);
        if stage < in_longer {
            stage / (self.run + 1)
        } else {
            self.longer + (stage - in_longer) / self.run
        }
    }

    /// Row and column of cluster tile `index` in units of cluster tiles.
    #[inline(always)]
    fn place(&self, index: u32) -> (u32, u32) {
        let (group, inside) = self.group.divmod(index);
        let first = group * self.rows.divisor();
        let whole = self.tiles_m - first >= self.rows.divisor();
        let rows = if whole { self.rows } else { self.last_rows };
        let (n, m) = rows.divmod(inside);
        (first + m, n)
    }
}

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
    p: TileSchedulerParams,
}

impl<const BM: usize, const BN: usize, const BK: usize, K: ClusterShape>
    TileScheduler<BM, BN, BK, K>
{
    const CLUSTER_ROWS: u32 = (BM * K::M) as u32;
    const CLUSTER_COLS: u32 = (BN * K::N) as u32;

    /// Starts at the first work of the CTA's own cluster.
    #[inline(always)]
    pub fn new<R: Roles>(cta: &Ready<R, K>, p: &TileSchedulerParams) -> Self {
        let at = cta.coord();
        Self::of(at, at.cluster_id(), at.clusters(), p)
    }

    /// The work of CTA `at` of cluster `cluster` of `clusters`, on the host, which has no CTA to ask.
    #[cfg(not(target_arch = "nvptx64"))]
    #[must_use]
    pub fn on_host(
        at: ClusterCoord<K>,
        cluster: u32,
        clusters: u32,
        p: &TileSchedulerParams,
    ) -> Self {
        assert!(cluster < clusters, "a grid of {clusters} clusters has no cluster {cluster}");
        Self::of(at, cluster, clusters, p)
    }

    #[inline(always)]
    fn of(at: ClusterCoord<K>, cluster: u32, clusters: u32, p: &TileSchedulerParams) -> Self {
        let tile = p.streamed + cluster;
        let mut scheduler = Self { tile, k: 0, left: 0, cluster, clusters, at, p: *p };
        if cluster < p.runs {
            let number = p.runs - 1 - cluster;
            let start = p.start(number);
            scheduler.left = p.start(number + 1) - start;
            (scheduler.tile, scheduler.k) = p.k_tiles.divmod(start);
        }
        scheduler
    }

    /// Whole tiles of the cluster that has most of them.
    #[inline(always)]
    pub fn rounds(&self) -> u32 {
        (self.p.tiles - self.p.streamed).div_ceil(self.clusters)
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

    /// The CTA that sums part `i` of the others of a tile that this one finishes. The runs lie
    /// backwards in the grid.
    #[inline(always)]
    pub fn other(&self, i: u32) -> u32 {
        self.cta() - (1 + i) * K::SIZE as u32
    }

    /// How many clusters sum the rest of a tile that this one finishes.
    #[inline(always)]
    pub fn others(&self, work: &WorkTile) -> u32 {
        let k_tiles = self.p.k_tiles();
        if work.k_tiles == k_tiles {
            return 0;
        }
        let last = self.p.run_of((work.tile + 1) * k_tiles - 1);
        last - (self.p.runs - 1 - self.cluster)
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

impl<const BM: usize, const BN: usize, const BK: usize, K: ClusterShape> Iterator
    for TileScheduler<BM, BN, BK, K>
{
    type Item = WorkTile;

    #[inline(always)]
    fn next(&mut self) -> Option<WorkTile> {
        let all = self.p.k_tiles();
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
        if tile >= self.p.tiles {
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

    proptest! {
        #[test]
        fn every_cluster_tile_is_placed_once(
            tiles_m in 1u32..40, tiles_n in 1u32..40, group in 0u32..12,
        ) {
            let p = TileSchedulerParams::new([tiles_m, tiles_n], 1, group, 1, 0);
            let all: BTreeSet<_> = (0..tiles_m * tiles_n).map(|i| p.place(i)).collect();
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
            let tiles_mn = [tiles_m, tiles_n];
            let p = TileSchedulerParams::new(tiles_mn, k_tiles, group, clusters, streamed);
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
