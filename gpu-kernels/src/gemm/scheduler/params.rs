//! The parameters of the tile schedulers, which the host computes.

use super::{Group, TileOrigin};
use crate::gemm::divmod::FastDivmod;
use isa::kernel::KernelArg;
use pipeline::cta::{ClusterCoord, ClusterShape};

/// The division of a product into cluster tiles, raster groups and runs of k tiles. (CUTLASS
/// `PersistentTileSchedulerSm90StreamKParams`.)
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, KernelArg)]
pub struct TileSchedulerParams {
    /// Number of rows of cluster tiles.
    tiles_m: u32,
    /// Number of cluster tiles.
    pub(super) tiles: u32,
    /// Number of clusters of the grid.
    pub(super) clusters: u32,
    /// K tiles of a tile.
    pub(super) k_tiles: FastDivmod,
    /// Cluster tiles of a raster group.
    group: FastDivmod,
    /// Cluster-tile rows per raster group (the raster swizzle size).
    rows: FastDivmod,
    /// Cluster-tile rows of the last raster group, if it is smaller.
    last_rows: FastDivmod,
    /// The first `streamed` cluster tiles are split among all clusters; the others are data-parallel.
    pub(super) streamed: u32,
    /// Data-parallel tiles of the cluster that has most of them.
    pub(super) rounds: u32,
    /// Runs into which the k tiles of the split tiles are cut. No run is empty.
    pub(super) runs: u32,
    /// Runs of a tile, if each split tile has as many. Otherwise [`UNEVEN`]: the tiles are cut as if they were one.
    parts: FastDivmod,
    /// K tiles of a shorter run.
    run: u32,
    /// The first `longer` runs of a tile, or of all tiles, have one extra k tile.
    longer: u32,
    /// The number of the other runs. The first `shorter` clusters have them.
    shorter: u32,
}

/// More runs than a grid has.
#[cfg(not(target_arch = "nvptx64"))]
const UNEVEN: u32 = 1 << 30;

impl TileSchedulerParams {
    /// The parameters of a product of `tiles` rows and columns of cluster tiles with `k_tiles` k tiles each. A raster
    /// group has `group` rows of cluster tiles, and `clusters` clusters split the first `streamed` cluster tiles.
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
        Self::batched([tiles_m, tiles_n, 1], k_tiles, group, clusters, streamed)
    }

    /// The parameters of a batch of such products, for [`Batched`](super::Batched): `tiles` has the rows and columns of
    /// cluster tiles of a matrix, and the matrices.
    #[cfg(not(target_arch = "nvptx64"))]
    #[must_use]
    pub const fn batched(
        tiles: [u32; 3],
        k_tiles: u32,
        group: u32,
        clusters: u32,
        streamed: u32,
    ) -> Self {
        let [tiles_m, tiles_n, batch] = tiles;
        let rows = if group == 0 { 1 } else { group };
        let stages = streamed * k_tiles;
        let runs = if clusters < stages { clusters } else { stages };
        // Runs that begin with tiles are reduced by fewer clusters than others: none gives to one tile and begins the next.
        let even = streamed > 0 && runs.is_multiple_of(streamed);
        let (parts, of, cut) =
            if even { (runs / streamed, runs / streamed, k_tiles) } else { (UNEVEN, runs, stages) };
        let run = match cut.checked_div(of) {
            Some(run) => run,
            None => 0,
        };
        Self {
            tiles_m,
            tiles: tiles_m * tiles_n * batch,
            clusters,
            k_tiles: FastDivmod::new(k_tiles),
            group: FastDivmod::new(rows * tiles_n),
            rows: FastDivmod::new(rows),
            last_rows: FastDivmod::new(tiles_m % rows),
            streamed,
            rounds: (tiles_m * tiles_n * batch - streamed).div_ceil(clusters),
            runs,
            parts: FastDivmod::new(parts),
            run,
            longer: cut - of * run,
            shorter: runs - (cut - of * run),
        }
    }

    /// Number of rows of cluster tiles.
    #[isa::forceinline]
    pub const fn tiles_m(&self) -> u32 {
        self.tiles_m
    }

    /// Number of clusters of the grid.
    #[isa::forceinline]
    pub const fn clusters(&self) -> u32 {
        self.clusters
    }

    /// K tiles of the data-parallel tiles of the cluster that has most of them: the steps of the grid throttle.
    #[must_use]
    pub const fn steps(&self) -> u32 {
        self.rounds.saturating_mul(self.k_tiles())
    }

    /// Number of cluster tiles.
    #[isa::forceinline]
    pub const fn tiles(&self) -> u32 {
        self.tiles
    }

    /// K tiles of a tile.
    #[isa::forceinline]
    pub const fn k_tiles(&self) -> u32 {
        self.k_tiles.divisor()
    }

    /// The end of the run of cluster `cluster`, which is the start of the run of cluster `cluster` - 1: a cluster with
    /// a higher number has earlier k tiles. For a cluster without a run, start and end are both 0.
    #[isa::forceinline]
    pub(super) fn start(&self, cluster: u32) -> u32 {
        let (tile, part) = self.parts.divmod(self.runs.saturating_sub(cluster));
        tile * self.k_tiles() + part * self.run + part.min(self.longer)
    }

    /// Runs of each split tile, if all have as many.
    #[isa::forceinline]
    pub(super) const fn even_parts(&self) -> Option<u32> {
        let parts = self.parts.divisor();
        if parts <= self.runs { Some(parts) } else { None }
    }

    /// K tiles of the run of cluster `cluster`, which must have a run, if the tiles have different numbers of runs.
    #[isa::forceinline]
    pub(super) fn run_of(&self, cluster: u32) -> u32 {
        self.run + u32::from(cluster >= self.shorter)
    }

    /// Where the tile of `bm` x `bn` elements of cluster tile `index` that the CTA at `at` computes lies in D.
    #[isa::forceinline]
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
            batch: 0,
            end: Group::ONE.end,
        }
    }

    /// Row and column of cluster tile `index`, in units of cluster tiles.
    #[isa::forceinline]
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
