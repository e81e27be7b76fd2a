//! The grouped scheduler: it walks the tiles of groups of rows whose sizes lie in device memory.
#![forbid(unsafe_code)]

use super::{Group, TileOrigin, TileScheduler, WorkTile};
use crate::gemm::divmod::FastDivmod;
use isa::kernel::KernelArg;
use isa::slice::DeviceSlice;
use isa::wgmma::{M64, Shape};
use pipeline::cta::{ClusterCoord, ClusterShape, Role};
use pipeline::grid::{DependentSlice, DependentSliceMut, Part, Waited};
use pipeline::prelude::*;

/// The kernel argument of [`Grouped`]. The device reads the ends when it runs, so the host need not know them.
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct GroupedArgs<'a> {
    /// For each group an `i32`: one past its last row, counted from the first row of its room.
    pub ends: DependentSlice<'a, u32>,
    /// One element that the grid sets: 0, or 1 + the first group whose end is not allowed.
    pub status: DependentSliceMut<'a, u32>,
    /// The numbers that the host knows.
    pub params: GroupedParams,
}

/// The division of groups into cluster tiles and raster groups, as far as the host knows it.
///
/// Rows of a group either follow those of the group before, or each group has room for as many rows.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, KernelArg)]
pub struct GroupedParams {
    /// Rows from the room of a group to that of the next; 0 if groups follow one another.
    pitch: u32,
    /// The largest end that is allowed.
    limit: u32,
    /// The logarithm to base 2 of the rows of D in a cluster tile.
    ///
    /// This is a shift because ptxas 13.0.88 miscompiles [`FastDivmod`] in the loop over the groups (docs/toolchain.md).
    tile_rows: u32,
    /// Cluster tiles along the columns of D.
    tiles_n: u32,
    /// Cluster-tile rows per raster group.
    raster: u32,
    /// Cluster tiles of a whole raster group.
    raster_tiles: FastDivmod,
    /// Columns of D, which are the rows of B of a group.
    columns: u32,
    /// K tiles of a tile.
    k_tiles: u32,
    /// Clusters of the grid.
    clusters: u32,
}

impl GroupedParams {
    /// The parameters of groups that follow one another in `limit` rows of D, or have room for `limit` rows each if
    /// `pitch` is that number and not 0. D has `columns` columns, a cluster tile is `tile` rows (a power of 2) and columns of D with
    /// `k_tiles` k tiles, and a raster group has `raster` rows of cluster tiles. The grid has `clusters` clusters.
    #[cfg(not(target_arch = "nvptx64"))]
    #[must_use]
    pub const fn new(
        [pitch, limit]: [u32; 2],
        columns: u32,
        tile: [u32; 2],
        k_tiles: u32,
        raster: u32,
        clusters: u32,
    ) -> Self {
        assert!(tile[0].is_power_of_two(), "rows are counted with a shift");
        let tiles_n = columns.div_ceil(tile[1]);
        Self {
            pitch,
            limit,
            tile_rows: tile[0].ilog2(),
            tiles_n,
            raster,
            raster_tiles: FastDivmod::new(raster * tiles_n),
            columns,
            k_tiles,
            clusters,
        }
    }
}

/// Rows of D of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Rows {
    begin: u32,
    end: u32,
}

impl Rows {
    /// The rows of group `index`, and whether its end is allowed.
    ///
    /// Groups do not overlap: an end before the group's beginning, or beyond what is allowed, counts as the nearest one
    /// that is. `before` is the end of the group before, and `own` what is in memory.
    #[isa::forceinline]
    fn of(index: u32, own: u32, before: u32, pitch: u32, limit: u32) -> (Self, bool) {
        let room = index * pitch;
        let begin = if pitch == 0 { before } else { room };
        let [own, least, most] = [own, begin - room, limit].map(u32::cast_signed);
        let upper = if own < most { own } else { most };
        let end = if upper < least { least } else { upper };
        (Self { begin, end: room + end.cast_unsigned() }, own == end)
    }
}

/// The walk of one cluster over the tiles of all groups.
#[derive(Clone)]
struct Walk {
    /// The next cluster tile, counted over all groups.
    next: u32,
    /// The first cluster tile of the current group, and the first one behind it.
    first: u32,
    end: u32,
    rows: Rows,
    /// The number of the group behind the current one.
    groups: u32,
    /// 1 + the first group whose end is not allowed.
    bad: u32,
    p: GroupedParams,
}

impl Walk {
    #[isa::forceinline]
    fn new(cluster: u32, p: GroupedParams) -> Self {
        let rows = Rows { begin: 0, end: 0 };
        Self { next: cluster, first: 0, end: 0, rows, groups: 0, bad: 0, p }
    }

    /// Rows of cluster tiles of the current group.
    #[isa::forceinline]
    fn tiles_m(&self) -> u32 {
        let most = (1 << self.p.tile_rows) - 1;
        (self.rows.end - self.rows.begin + most) >> self.p.tile_rows
    }

    /// Row and column of cluster tile `index` of the current group, in units of cluster tiles.
    #[isa::forceinline]
    fn place(&self, index: u32) -> (u32, u32) {
        let (raster, inside) = self.p.raster_tiles.divmod(index);
        let first = raster * self.p.raster;
        let left = self.tiles_m() - first;
        let rows = if left < self.p.raster { left } else { self.p.raster };
        let column = inside / rows;
        (first + inside - column * rows, column)
    }

    /// Goes on to the group of the next cluster tile, which `ends` has the end of. Returns `None` behind the last one.
    #[isa::forceinline]
    fn advance(&mut self, end_of: impl Fn(u32) -> Option<u32>) -> Option<WorkTile> {
        let GroupedParams { pitch, limit, tiles_n, clusters, k_tiles, tile_rows, .. } = self.p;
        while self.next >= self.end {
            let own = end_of(self.groups)?;
            let (rows, allowed) = Rows::of(self.groups, own, self.rows.end, pitch, limit);
            self.rows = rows;
            self.groups += 1;
            if !allowed && self.bad == 0 {
                self.bad = self.groups;
            }
            self.first = self.end;
            self.end += self.tiles_m() * tiles_n;
        }
        let (row, column) = self.place(self.next - self.first);
        self.next += clusters;
        let row = self.rows.begin + (row << tile_rows);
        let group = Group { index: self.groups - 1, row, end: self.rows.end };
        Some(WorkTile { index: column, k: 0, k_tiles, group })
    }
}

/// Data-parallel tiles of groups: cluster i of g takes cluster tiles i, i + g, and so on, counted over all groups. A
/// cluster tile has rows of one group only. (CUTLASS `PersistentTileSchedulerSm90Group`.)
///
/// Each thread keeps the group of its next tile, and goes on from there. It reads each end once, and most of them from
/// the L1 cache, where a line has 32.
///
/// Inside a group, tiles are in raster groups of a few rows, as in [`TileSchedulerParams`](super::TileSchedulerParams).
/// The number of a work tile is the column of its cluster tile. With `SWAP_AB` the rows of a group are columns of the
/// kernel's tiles.
#[derive(Clone)]
pub struct Grouped<Cl, const SWAP_AB: bool> {
    walk: Walk,
    /// The ends, once the thread has waited for the primary grid.
    ends: Option<DeviceSlice<'static, u32>>,
    status: DependentSliceMut<'static, u32>,
    at: ClusterCoord<Cl>,
}

impl<Cl: ClusterShape, const SWAP_AB: bool> Grouped<Cl, SWAP_AB> {
    /// The scheduler of the CTA at `at`. The token says that the thread may read the ends.
    #[isa::forceinline]
    pub fn by(at: ClusterCoord<Cl>, token: &impl Waited, args: &GroupedArgs<'static>) -> Self {
        Self { ends: Some(args.ends.by(token)), ..<Self as TileScheduler<Cl>>::new(at, args) }
    }

    /// The first row of B, [groups · N, K], of the work's group.
    #[isa::forceinline]
    pub fn row_of_b(&self, work: &WorkTile) -> u32 {
        work.group.index * self.walk.p.columns
    }

    /// Writes the status, if this is the first CTA of the grid. The iteration must have ended: then this thread has seen
    /// all groups. One thread of the CTA calls this.
    #[isa::forceinline]
    pub fn write_status(&self, token: &impl Waited) {
        if self.at.cluster_id() == 0 && self.at.rank() == 0 {
            self.status.by(token).try_set(0, self.walk.bad);
        }
    }
}

impl<Cl: ClusterShape, const SWAP_AB: bool> TileScheduler<Cl> for Grouped<Cl, SWAP_AB> {
    type Args = GroupedArgs<'static>;
    const SPLITS_K: bool = false;

    /// Before the wait nothing is known of the groups, so this scheduler has no tiles; [`Grouped::by`] has.
    #[isa::forceinline]
    fn new(at: ClusterCoord<Cl>, args: &GroupedArgs<'static>) -> Self {
        let walk = Walk::new(at.cluster_id(), args.params);
        Self { walk, ends: None, status: args.status, at }
    }

    #[isa::forceinline]
    fn origin(&self, work: &WorkTile, bm: usize, bn: usize) -> TileOrigin {
        let Group { row, end, .. } = work.group;
        let (below, right) = (self.at.m() * bm as u32, self.at.n() * bn as u32);
        if SWAP_AB {
            let first = work.index * (bm * Cl::M) as u32;
            TileOrigin { batch: 0, row: first + below, col: row + right, end }
        } else {
            let first = work.index * (bn * Cl::N) as u32;
            TileOrigin { batch: 0, row: row + below, col: first + right, end }
        }
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

impl<Cl: ClusterShape, const SWAP_AB: bool> Iterator for Grouped<Cl, SWAP_AB> {
    type Item = WorkTile;

    #[isa::forceinline]
    fn next(&mut self) -> Option<WorkTile> {
        let ends = self.ends?;
        self.walk.advance(|group| ends.get(group as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Ends of groups as they are in memory: most of them in order, some not allowed.
    fn ends() -> impl Strategy<Value = Vec<i32>> {
        let end = prop_oneof![4 => -5..700i32, 1 => any::<i32>()];
        (prop::collection::vec(end, 1..20), any::<bool>()).prop_map(|(mut ends, in_order)| {
            if in_order {
                ends.sort_unstable();
            }
            ends
        })
    }

    proptest! {
        /// The clusters together compute each tile of each group once, in order. The tiles of a group cover its rows,
        /// which lie behind those of the group before. Every cluster sees the same first bad end.
        #[test]
        fn each_tile_of_each_group_once(
            ends in ends(), masked in any::<bool>(), limit in 0u32..600, columns in 1u32..300,
            rows in 0usize..3, cols in 1u32..130, raster in 1u32..5, clusters in 1u32..40,
        ) {
            let tile = [[16, 128, 256][rows], cols];
            let pitch = if masked { limit.max(1) } else { 0 };
            let limit = if masked { pitch } else { limit };
            let p = GroupedParams::new([pitch, limit], columns, tile, 3, raster, clusters);
            let own = |group: u32| ends.get(group as usize).map(|end| end.cast_unsigned());
            let mut tiles = BTreeMap::<u32, BTreeMap<(u32, u32), u32>>::new();
            let mut bad = None;
            for cluster in 0..clusters {
                let mut walk = Walk::new(cluster, p);
                let mut before = 0;
                while let Some(work) = walk.advance(own) {
                    let Group { index, row, end } = work.group;
                    prop_assert!(work.k == 0 && work.k_tiles == 3 && before <= index && row < end);
                    before = index;
                    let of_group = tiles.entry(index).or_default();
                    prop_assert_eq!(of_group.insert((row, work.index), end), None, "twice");
                }
                prop_assert!(walk.advance(own).is_none(), "no tile behind the last one");
                prop_assert_eq!(*bad.get_or_insert(walk.bad), walk.bad);
            }
            let (mut last, mut first_bad) = (0i64, 0);
            for (group, &end) in ends.iter().enumerate() {
                let room = i64::from(pitch) * group as i64;
                let begin = if masked { room } else { last };
                let most = i64::from(limit) + room;
                let right = (i64::from(end) + room).clamp(begin, most);
                if right != i64::from(end) + room && first_bad == 0 {
                    first_bad = group as u32 + 1;
                }
                last = right;
                let tiles_n = columns.div_ceil(cols);
                let mut expected = BTreeMap::new();
                for row in (begin..right).step_by(tile[0] as usize) {
                    for column in 0..tiles_n {
                        expected.insert((row as u32, column), right as u32);
                    }
                }
                let have = tiles.remove(&(group as u32)).unwrap_or_default();
                prop_assert_eq!(have, expected, "group {} of {:?}", group, &ends);
            }
            prop_assert!(tiles.is_empty());
            prop_assert_eq!(bad, Some(first_bad));
        }
    }

    /// Tiles of a raster group go down its rows first, so that clusters side by side share rows of B.
    #[test]
    fn a_raster_group_goes_down_first() {
        let p = GroupedParams::new([0, 80], 32, [16, 16], 1, 2, 1);
        let mut walk = Walk::new(0, p);
        let ends = [80];
        let tiles: Vec<_> = core::iter::from_fn(|| walk.advance(|g| ends.get(g as usize).copied()))
            .map(|work| (work.group.row / 16, work.index))
            .collect();
        let right =
            [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (3, 0), (2, 1), (3, 1), (4, 0), (4, 1)];
        assert_eq!(tiles, right);
    }
}
