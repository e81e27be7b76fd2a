//! The three seams of the GEMM, each with an example of one's own. CONTRIBUTING.md quotes them, and
//! `host/tests/integration/gemm_seams.rs` runs them on the SM model.

use half::bf16;
use isa::kernel::{Kernel, KernelArg};
use isa::wgmma::{M64, Shape};
use pipeline::cta::{ClusterCoord, ClusterShape, Role};
use pipeline::grid::Part;
use pipeline::mma::{Fragment, GROUP_ROWS, MmaStage};
use pipeline::prelude::*;
use pipeline::ring::Consumer;
use pipeline::tile::EpilogueElement;
use warpipe_gpu_kernels::gemm::config::*;
use warpipe_gpu_kernels::gemm::epilogue::{Epilogue, Linear, Scaled};
use warpipe_gpu_kernels::gemm::fusion::{
    Activated, Clamp, EltAct, Gated, Gelu, PerColBias, PerRowBias, Residual, Sigmoid, Then,
};
use warpipe_gpu_kernels::gemm::output::EpilogueTiles;
use warpipe_gpu_kernels::gemm::scheduler::{Group, TileOrigin, TileScheduler, WorkTile};

// example: epilogue
/// D = max(alpha · A·Bᵀ, 0)
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct Relu {
    /// Factor of the product.
    pub alpha: f32,
}

impl Epilogue for Relu {
    #[inline(always)]
    fn visit(&self, sum: Fragment, _c: Option<Fragment>) -> Fragment {
        sum.map(|x| (self.alpha * x).max(0.0))
    }
}

warpipe_gpu_kernels::gemm_kernels! {
    /// The kernels of this crate's image.
    pub static KERNELS: Relu;
    relu_128x128: bf16 => bf16, 128 x 128, cluster 1 x 1, Cooperative;
}
// end

// example: chain
/// gelu(alpha · A·Bᵀ + bias of the column) + C
pub type GeluResidual<'a> = Then<Activated<Then<Linear, PerColBias<'a, bf16>>, Gelu>, Residual>;

warpipe_gpu_kernels::gemm_kernels! {
    /// The kernels with this epilogue.
    pub static CHAINED: GeluResidual<'static>;
    gelu_residual_128x128: bf16 => bf16, 128 x 128, cluster 1 x 1, Pingpong, with C;
    gelu_residual_64x64: bf16 => bf16, 64 x 64, cluster 1 x 1, Cooperative, with C;
}
// end

/// sigmoid(product with scales + bias of the row), between bounds, of a transposed tile.
pub type Bounded = Then<Activated<Then<Scaled<'static>, PerRowBias<'static, f32>>, Sigmoid>, Clamp>;

warpipe_gpu_kernels::gemm_kernels! {
    /// The kernels with that epilogue.
    pub static BOUNDED: Bounded;
    bounded_128x256: bf16 => f32, 128 x 256, cluster 2 x 1, SplitN;
    bounded_16x64t: bf16 => bf16, 64 x 16, cluster 1 x 1, Cooperative, operands swapped;
}

// example: gated
/// silu(gate) · up, and a bias of the columns of D
pub type SwiGlu<'a> = Then<Gated<Linear, EltAct>, PerColBias<'a, f32>>;

warpipe_gpu_kernels::gemm_kernels! {
    /// The kernels with this epilogue. Their D has half as many columns as the tile says.
    pub static SWIGLU: SwiGlu<'static>;
    swiglu_128x256: bf16 => bf16, 128 x 256, cluster 2 x 1, SplitN;
    swiglu_64x192: bf16 => bf16, 64 x 192, cluster 1 x 1, Cooperative;
    swiglu_128x128_f32: bf16 => f32, 128 x 128, cluster 1 x 1, Pingpong;
}
// end

// example: main loop
/// `Cooperative` without overlap: the wgmmas of a k tile end before those of the next one are issued.
/// A baseline that shows what the overlap is worth.
pub struct Serial<const BM: usize, const BN: usize>;

impl<G: Config, const BM: usize, const BN: usize> Mainloop<G> for Serial<BM, BN>
where
    Stage<G>: MmaStage<BN>,
    M64<BN>: Shape,
{
    type Readers = Mma<G::Math>;
    type SourceReaders = Reads<G::Math>;
    type SourceTile = <Out<G> as EpilogueElement>::EpilogueTile<BM>;
    type Turns = ();
    type SourceTurns = ();
    const SOURCE_ROWS: usize = 1;
    const SOURCE_COLS: usize = EpilogueTiles::<G::Output, BN>::COUNT;
    #[inline(always)]
    fn source_column(index: usize) -> usize {
        EpilogueTiles::<G::Output, BN>::column(index)
    }

    #[inline(always)]
    fn run<const STAGES: usize, const STORES: usize>(
        tiles: G::Scheduler,
        mut operands: Consumer<STAGES, Stage<G>, Self::Readers, MainLoop, G::Cluster>,
        _turns: TurnsOf<G, Self>,
        out: &mut OutputOf<'_, G, Self, STORES>,
    ) {
        let group = out.group;
        let rows_above = group.index() as usize * GROUP_ROWS;
        let origin = |work: &_| tiles.origin(work, BM, BN).below(rows_above);
        for work in tiles.clone() {
            let begun = out.begin(GROUP_ROWS, BN, origin(&work));
            let (mut sum, slot) = Accumulator::<BN>::start(group, operands.wait()).finish();
            slot.release();
            for _ in 1..work.k_tiles {
                let (next, slot) = sum.add(group, operands.wait()).finish();
                slot.release();
                sum = next;
            }
            // Stream-K: adds the sums of the other CTAs that have k tiles of this tile.
            tiles.fixup(group, &work, Part::whole(), sum, |sum| {
                out.store(&begun, sum, origin(&work));
            });
        }
    }
}
// end

// example: scheduler
/// What the host tells `ByColumns`, in cluster tiles.
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct ByColumnsArgs {
    /// Rows of cluster tiles.
    pub tiles_m: u32,
    /// Columns of cluster tiles.
    pub tiles_n: u32,
    /// K tiles of each.
    pub k_tiles: u32,
    /// Clusters of the grid.
    pub clusters: u32,
}

/// The cluster tiles of one cluster: every `clusters`-th one, column by column.
#[derive(Clone)]
pub struct Walk {
    next: u32,
    args: ByColumnsArgs,
}

impl Iterator for Walk {
    type Item = WorkTile;
    #[inline(always)]
    fn next(&mut self) -> Option<WorkTile> {
        let index = self.next;
        self.next += self.args.clusters;
        let in_d = index < self.args.tiles_m * self.args.tiles_n;
        in_d.then_some(WorkTile { index, k: 0, k_tiles: self.args.k_tiles, group: Group::ONE })
    }
}

impl Walk {
    /// Row and column of a cluster tile.
    #[inline(always)]
    fn place(&self, work: &WorkTile) -> (u32, u32) {
        (work.index % self.args.tiles_m, work.index / self.args.tiles_m)
    }
}

/// Data-parallel tiles, column by column: CTAs that run at the same time share tiles of B.
#[derive(Clone)]
pub struct ByColumns<Cl> {
    walk: Walk,
    at: ClusterCoord<Cl>,
}

impl<Cl: ClusterShape> Iterator for ByColumns<Cl> {
    type Item = WorkTile;
    #[inline(always)]
    fn next(&mut self) -> Option<WorkTile> {
        self.walk.next()
    }
}

impl<Cl: ClusterShape> TileScheduler<Cl> for ByColumns<Cl> {
    type Args = ByColumnsArgs;
    const SPLITS_K: bool = false;

    #[inline(always)]
    fn new(at: ClusterCoord<Cl>, args: &ByColumnsArgs) -> Self {
        Self { walk: Walk { next: at.cluster_id(), args: *args }, at }
    }

    #[inline(always)]
    fn origin(&self, work: &WorkTile, bm: usize, bn: usize) -> TileOrigin {
        let (m, n) = self.walk.place(work);
        TileOrigin {
            row: (m * Cl::M as u32 + self.at.m()) * bm as u32,
            col: (n * Cl::N as u32 + self.at.n()) * bn as u32,
            batch: 0,
            end: Group::ONE.end,
        }
    }

    #[inline(always)]
    fn is_data_parallel(&self, _work: &WorkTile) -> bool {
        true
    }

    #[inline(always)]
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
// end

// example: kernel
warpipe_gpu_kernels::gemm_kernels! {
    /// A kernel with this main loop and this scheduler.
    pub static OWN_PARTS: Relu;
    serial_by_columns: bf16 => bf16, 128 x 128, cluster 2 x 1, Cooperative, mainloop Serial<128, 128>, scheduler ByColumns;
}
// end

#[test]
fn each_example_is_a_kernel() {
    let meta = &<serial_by_columns::serial_by_columns as Kernel>::DESC.meta;
    assert_eq!((meta.threads, meta.cluster), (384, [2, 1, 1]));
    let row = KERNELS[0];
    assert_eq!((row.desc.meta.name(), row.bm, row.bn), ("relu_128x128", 128, 128));
    assert!(row.splits_k && !OWN_PARTS[0].splits_k, "ByColumns computes whole tiles");
}

#[test]
fn the_clusters_compute_each_tile_once_and_column_by_column() {
    let args = ByColumnsArgs { tiles_m: 5, tiles_n: 3, k_tiles: 7, clusters: 4 };
    let mut tiles = Vec::new();
    for cluster in 0..args.clusters {
        let walk = Walk { next: cluster, args };
        let of_cluster: Vec<_> = walk.clone().map(|work| walk.place(&work)).collect();
        assert!(of_cluster.is_sorted_by_key(|&(m, n)| (n, m)));
        assert!(walk.clone().all(|work| work.computes_epilogue() && work.k_tiles == 7));
        tiles.extend(of_cluster);
    }
    tiles.sort_unstable();
    let all: Vec<_> = (0..5).flat_map(|m| (0..3).map(move |n| (m, n))).collect();
    assert_eq!(tiles, all);
}
