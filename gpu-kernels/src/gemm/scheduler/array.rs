//! The scheduler of pointer arrays: it walks the tiles of problems whose sizes lie in device memory.
#![forbid(unsafe_code)]

use super::{Group, TileOrigin, TileScheduler, WorkTile};
use isa::kernel::KernelArg;
use isa::slice::DeviceSlice;
use isa::wgmma::{M64, Shape};
use pipeline::cta::{ClusterCoord, ClusterShape, Role};
use pipeline::grid::{DependentSlice, DependentSliceMut, Part, Waited};
use pipeline::prelude::*;

/// M, N and K of a problem, and whether it is not allowed: 1, and then the others are 0.
pub type ProblemShape = [u32; 4];

/// The kernel argument of [`Array`].
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct ArrayArgs<'a> {
    /// The sizes of each problem. [`write_maps`](crate::gemm::grouped::write_maps) has checked them.
    pub shapes: DependentSlice<'a, ProblemShape>,
    /// One element that the grid sets: 0, or 1 + the first problem that is not allowed.
    pub status: DependentSliceMut<'a, u32>,
    /// The numbers that the host knows.
    pub params: ArrayParams,
}

/// The division of problems into cluster tiles and raster groups, as far as the host knows it.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, KernelArg)]
pub struct ArrayParams {
    /// The logarithms to base 2 of the rows and columns of D in a cluster tile, and of the columns of a k tile.
    log_tile: [u32; 3],
    /// Cluster-tile rows per raster group.
    raster: u32,
    /// Clusters of the grid.
    clusters: u32,
}

impl ArrayParams {
    /// The parameters of cluster tiles of `tile` rows and columns of D and k tiles of that many columns, all powers of 2.
    /// A raster group has `raster` rows of cluster tiles, and the grid `clusters` clusters.
    #[cfg(not(target_arch = "nvptx64"))]
    #[must_use]
    pub const fn new(tile: [u32; 3], raster: u32, clusters: u32) -> Self {
        let [rows, cols, depth] = tile;
        assert!(
            rows.is_power_of_two() && cols.is_power_of_two() && depth.is_power_of_two(),
            "tiles are counted with shifts"
        );
        assert!(raster > 0 && clusters > 0, "a walk goes on");
        Self { log_tile: [rows.ilog2(), cols.ilog2(), depth.ilog2()], raster, clusters }
    }
}

/// `value` / 2^`log`, rounded up.
#[isa::forceinline]
fn shift_up(value: u32, log: u32) -> u32 {
    (value >> log) + (value & ((1 << log) - 1)).min(1)
}

/// The walk of one cluster over the tiles of all problems.
#[derive(Clone)]
struct Walk {
    /// The next cluster tile, counted from the first one of the current problem. Over all problems there may be more than
    /// 2^32; the D of one has fewer, because it fits in the memory of a GPU.
    next: u32,
    /// Rows of the current problem; its cluster tiles along both directions, and its k tiles.
    rows: u32,
    tiles: [u32; 2],
    k_tiles: u32,
    /// The number of the problem behind the current one.
    problems: u32,
    /// 1 + the first problem that is not allowed.
    bad: u32,
    p: ArrayParams,
}

impl Walk {
    #[isa::forceinline]
    fn new(cluster: u32, p: ArrayParams) -> Self {
        Self { next: cluster, rows: 0, tiles: [0; 2], k_tiles: 0, problems: 0, bad: 0, p }
    }

    /// Row and column of cluster tile `index` of the current problem, in units of cluster tiles.
    #[isa::forceinline]
    fn place(&self, index: u32) -> (u32, u32) {
        let raster = index / (self.p.raster * self.tiles[1]);
        let inside = index - raster * self.p.raster * self.tiles[1];
        let first = raster * self.p.raster;
        let left = self.tiles[0] - first;
        let rows = if left < self.p.raster { left } else { self.p.raster };
        let column = inside / rows;
        (first + inside - column * rows, column)
    }

    /// Goes on to the problem of the next cluster tile. Returns `None` behind the last one.
    #[isa::forceinline]
    fn advance(&mut self, shape_of: impl Fn(u32) -> Option<ProblemShape>) -> Option<WorkTile> {
        loop {
            let tiles = self.tiles[0] * self.tiles[1];
            if self.next < tiles {
                break;
            }
            let [m, n, k, bad] = shape_of(self.problems)?;
            self.next -= tiles;
            self.problems += 1;
            if bad != 0 && self.bad == 0 {
                self.bad = self.problems;
            }
            let [rows, cols, depth] = self.p.log_tile;
            self.rows = m;
            self.tiles = [shift_up(m, rows), shift_up(n, cols)];
            self.k_tiles = shift_up(k, depth);
        }
        let (row, column) = self.place(self.next);
        self.next += self.p.clusters;
        let group =
            Group { index: self.problems - 1, row: row << self.p.log_tile[0], end: self.rows };
        Some(WorkTile { index: column, k: 0, k_tiles: self.k_tiles, group })
    }
}

/// Data-parallel tiles of problems with sizes of their own: cluster i of g takes cluster tiles i, i + g, and so on, counted
/// over all problems. (CUTLASS `PersistentTileSchedulerSm90Group`.)
///
/// Each thread keeps the problem of its next tile, and goes on from there. The group of a work tile is its problem, whose rows
/// begin at 0, and so is the batch of a tile's origin: tensor maps are chosen by it.
#[derive(Clone)]
pub struct Array<Cl> {
    walk: Walk,
    /// The sizes, once the thread has waited for the primary grid.
    shapes: Option<DeviceSlice<'static, ProblemShape>>,
    status: DependentSliceMut<'static, u32>,
    at: ClusterCoord<Cl>,
}

impl<Cl: ClusterShape> Array<Cl> {
    /// The scheduler of the CTA at `at`. The token says that the thread may read the sizes.
    #[isa::forceinline]
    pub fn by(at: ClusterCoord<Cl>, token: &impl Waited, args: &ArrayArgs<'static>) -> Self {
        Self { shapes: Some(args.shapes.by(token)), ..<Self as TileScheduler<Cl>>::new(at, args) }
    }

    /// Writes the status, if this is the first CTA of the grid. The iteration must have ended: then this thread has seen
    /// all problems. One thread of the CTA calls this.
    #[isa::forceinline]
    pub fn write_status(&self, token: &impl Waited) {
        if self.at.cluster_id() == 0 && self.at.rank() == 0 {
            self.status.by(token).try_set(0, self.walk.bad);
        }
    }
}

impl<Cl: ClusterShape> TileScheduler<Cl> for Array<Cl> {
    type Args = ArrayArgs<'static>;
    const SPLITS_K: bool = false;

    /// Before the wait nothing is known of the problems, so this scheduler has no tiles; [`Array::by`] has.
    #[isa::forceinline]
    fn new(at: ClusterCoord<Cl>, args: &ArrayArgs<'static>) -> Self {
        let walk = Walk::new(at.cluster_id(), args.params);
        Self { walk, shapes: None, status: args.status, at }
    }

    #[isa::forceinline]
    fn origin(&self, work: &WorkTile, bm: usize, bn: usize) -> TileOrigin {
        let Group { index, row, end } = work.group;
        let first = work.index * (bn * Cl::N) as u32;
        let (below, right) = (self.at.m() * bm as u32, self.at.n() * bn as u32);
        TileOrigin { batch: index, row: row + below, col: first + right, end }
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

impl<Cl: ClusterShape> Iterator for Array<Cl> {
    type Item = WorkTile;

    #[isa::forceinline]
    fn next(&mut self) -> Option<WorkTile> {
        let shapes = self.shapes?;
        self.walk.advance(|problem| shapes.get(problem as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn shifts_round_up() {
        for value in [0, 1, 63, 64, 65, 128, u32::MAX] {
            assert_eq!(shift_up(value, 6), value.div_ceil(64));
        }
    }

    proptest! {
        /// The clusters together compute each tile of each problem once, in order. Every cluster sees the same first bad
        /// problem.
        #[test]
        fn each_tile_of_each_problem_once(
            shapes in prop::collection::vec((0u32..700, 0u32..700, 1u32..300, 0u32..8), 1..12),
            tile in prop::sample::select(vec![[16, 32, 64], [128, 256, 64], [256, 256, 32]]),
            raster in 1u32..5, clusters in 1u32..40,
        ) {
            let shapes: Vec<ProblemShape> = shapes
                .into_iter()
                .map(|(m, n, k, bad)| if bad == 7 { [0, 0, 0, 1] } else { [m, n, k, 0] })
                .collect();
            let p = ArrayParams::new(tile, raster, clusters);
            let of = |problem: u32| shapes.get(problem as usize).copied();
            let mut tiles = BTreeSet::new();
            let first_bad = shapes.iter().position(|s| s[3] == 1).map_or(0, |i| i as u32 + 1);
            for cluster in 0..clusters {
                let mut walk = Walk::new(cluster, p);
                let mut before = 0;
                while let Some(work) = walk.advance(of) {
                    let Group { index, row, end } = work.group;
                    let [m, _, k, _] = shapes[index as usize];
                    prop_assert!(before <= index && row < end && end == m && work.k == 0);
                    prop_assert_eq!(work.k_tiles, k.div_ceil(tile[2]));
                    before = index;
                    prop_assert!(tiles.insert((index, row, work.index)), "twice");
                }
                prop_assert!(walk.advance(of).is_none(), "no tile behind the last one");
                prop_assert_eq!(walk.bad, first_bad);
            }
            let mut right = BTreeSet::new();
            for (problem, &[m, n, ..]) in shapes.iter().enumerate() {
                for row in (0..m).step_by(tile[0] as usize) {
                    for column in 0..n.div_ceil(tile[1]) {
                        right.insert((problem as u32, row, column));
                    }
                }
            }
            prop_assert_eq!(tiles, right);
        }
    }
}
