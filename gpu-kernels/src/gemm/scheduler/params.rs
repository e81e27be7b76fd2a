//! What the host tells the scheduler.

use super::TileOrigin;
use crate::gemm::divmod::FastDivmod;
use isa::kernel::KernelArg;
use pipeline::cta::{ClusterCoord, ClusterShape};

/// What the host knows of the work (CUTLASS `PersistentTileSchedulerSm90StreamKParams`).
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, KernelArg)]
pub struct TileSchedulerParams {
    /// Rows of cluster tiles.
    tiles_m: u32,
    /// Cluster tiles.
    pub(super) tiles: u32,
    /// Clusters of the grid.
    pub(super) clusters: u32,
    /// Stages of a tile.
    pub(super) k_tiles: FastDivmod,
    /// Cluster tiles of a raster group.
    group: FastDivmod,
    /// Its rows of them.
    rows: FastDivmod,
    /// The rows of the last group.
    last_rows: FastDivmod,
    /// Cluster tiles whose stages all clusters share; the others are computed whole.
    pub(super) streamed: u32,
    /// Whole tiles of the cluster that has most of them.
    pub(super) rounds: u32,
    /// Runs into which the stages of those are cut, none of them empty.
    pub(super) runs: u32,
    /// Stages of a run.
    run: u32,
    /// Of the first that many runs, one more.
    longer: u32,
    /// The other runs: those of the first clusters.
    shorter: u32,
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
            clusters,
            k_tiles: FastDivmod::new(k_tiles),
            group: FastDivmod::new(rows * tiles_n),
            rows: FastDivmod::new(rows),
            last_rows: FastDivmod::new(tiles_m % rows),
            streamed,
            rounds: (tiles_m * tiles_n - streamed).div_ceil(clusters),
            runs,
            run,
            longer: stages - runs * run,
            shorter: runs - (stages - runs * run),
        }
    }

    /// Rows of cluster tiles.
    #[inline(always)]
    pub const fn tiles_m(&self) -> u32 {
        self.tiles_m
    }

    /// Clusters of the grid.
    #[inline(always)]
    pub const fn clusters(&self) -> u32 {
        self.clusters
    }

    /// Data-parallel tiles of the cluster that has most of them.
    #[inline(always)]
    pub const fn rounds(&self) -> u32 {
        self.rounds
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

    /// The first stage of the run of cluster `cluster` - 1, and the stage behind that of `cluster`: runs
    /// lie backwards in the grid. A cluster without one begins, and ends, where the first run does.
    #[inline(always)]
    pub(super) fn start(&self, cluster: u32) -> u32 {
        let number = self.runs.saturating_sub(cluster);
        number * self.run + number.min(self.longer)
    }

    /// Stages of the run of cluster `cluster`.
    #[inline(always)]
    pub(super) fn run_of(&self, cluster: u32) -> u32 {
        self.run + u32::from(cluster >= self.shorter)
    }

    /// Where the tile of `bm` x `bn` elements of the CTA at `at` lies in cluster tile `index`.
    #[inline(always)]
    #[must_use]
    pub fn origin<Cl: ClusterShape>(
        &self,
        index: u32,
        at: ClusterCoord<Cl>,
        bm: usize,
        bn: usize,
    ) -> TileOrigin {
        let (m, n) = self.place(index);
        TileOrigin {
            row: m * (bm * Cl::M) as u32 + at.m() * bm as u32,
            col: n * (bn * Cl::N) as u32 + at.n() * bn as u32,
        }
    }

    /// Row and column of cluster tile `index` in units of cluster tiles.
    #[inline(always)]
    pub(super) fn place(&self, index: u32) -> (u32, u32) {
        let (group, inside) = self.group.divmod(index);
        let first = group * self.rows.divisor();
        let whole = self.tiles_m - first >= self.rows.divisor();
        let rows = if whole { self.rows } else { self.last_rows };
        let (n, m) = rows.divmod(inside);
        (first + m, n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

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
    }
}
