//! Which tiles a CTA of the persistent grid computes, and in which order.
#![forbid(unsafe_code)]

use super::GemmParams;
use pipeline::prelude::*;

/// A CTA's tile: first row and first column of its block of D.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TileOrigin {
    /// First row.
    pub row: u32,
    /// First column.
    pub col: u32,
}

/// Walks the tiles of one CTA, the same for every role (CUTLASS `PersistentTileSchedulerSm90`).
///
/// Clusters take cluster tiles in turn, `clusters` apart. Cluster tiles are numbered in groups of
/// `group` rows, column by column inside a group, so that the tiles in flight at one time share
/// rows of A and columns of B in the L2 cache.
#[derive(Clone, Debug)]
pub struct TileScheduler<const BM: usize, const BN: usize, K> {
    next: u32,
    step: u32,
    tiles_m: u32,
    tiles_n: u32,
    group: u32,
    at: ClusterCoord<K>,
}

impl<const BM: usize, const BN: usize, K: ClusterShape> TileScheduler<BM, BN, K> {
    const CLUSTER_ROWS: u32 = (BM * K::M) as u32;
    const CLUSTER_COLS: u32 = (BN * K::N) as u32;

    /// Starts at the tile of the CTA's own cluster.
    #[inline(always)]
    pub fn new(at: ClusterCoord<K>, p: &GemmParams) -> Self {
        Self {
            next: at.cluster_id(),
            step: at.clusters(),
            tiles_m: p.m.div_ceil(Self::CLUSTER_ROWS),
            tiles_n: p.n.div_ceil(Self::CLUSTER_COLS),
            group: p.group.max(1),
            at,
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

impl<const BM: usize, const BN: usize, K: ClusterShape> Iterator for TileScheduler<BM, BN, K> {
    type Item = TileOrigin;

    #[inline(always)]
    fn next(&mut self) -> Option<TileOrigin> {
        if self.next >= self.tiles_m * self.tiles_n {
            return None;
        }
        let (m, n) = Self::place(self.next, self.tiles_m, self.tiles_n, self.group);
        self.next += self.step;
        Some(TileOrigin {
            row: m * Self::CLUSTER_ROWS + self.at.m() * BM as u32,
            col: n * Self::CLUSTER_COLS + self.at.n() * BN as u32,
        })
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
            tiles_m in 1u32..40, tiles_n in 1u32..40, group in 1u32..12,
        ) {
            let all: BTreeSet<_> = (0..tiles_m * tiles_n)
                .map(|i| TileScheduler::<128, 256, Cluster<2, 1>>::place(i, tiles_m, tiles_n, group))
                .collect();
            prop_assert_eq!(all.len() as u32, tiles_m * tiles_n);
            prop_assert!(all.iter().all(|&(m, n)| m < tiles_m && n < tiles_n));
        }
    }
}
