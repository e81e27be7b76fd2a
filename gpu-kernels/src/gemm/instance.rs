//! The host's description of a compiled GEMM kernel.

use super::Epilogue;
use super::config::{Config, Mainloop, Stage};
use super::divmod::FastDivmod;
use super::output::Orientation;
use super::rank::MapRank;
use super::scales::ScaleConfig;
use super::scheduler::{TileScheduler, TileSchedulerParams};
use core::marker::PhantomData;
use isa::kernel::{Dtype, KernelDesc};
use pipeline::cta::{ClusterShape, Condition};
use pipeline::ring::Stage as _;
use pipeline::tile::{Element, Major, TileShape};

/// How the warp groups of a CTA divide its tiles among themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KernelSchedule {
    /// All warp groups multiply each tile together ([`Cooperative`](super::kernel::Cooperative)).
    Cooperative,
    /// Two warp groups multiply each tile together, half of the columns each ([`CooperativeByColumns`](super::by_columns::CooperativeByColumns)).
    CooperativeByColumns,
    /// All warp groups multiply each tile together, two blocks of 64 rows each ([`CooperativeTall`](super::tall::CooperativeTall)).
    CooperativeTall,
    /// All warp groups multiply each tile together, split along N: one half is stored while the other is multiplied
    /// ([`SplitN`](super::kernel::SplitN)).
    SplitN,
    /// Each warp group multiplies tiles of its own, in turn, and stores a tile while another one multiplies
    /// ([`Pingpong`](super::kernel::Pingpong)).
    Pingpong,
}

/// One compiled GEMM kernel: its tile, cluster and types.
///
/// Its parameters are the tensor maps of A, B, C and D, [`LoadArgs`](super::config::LoadArgs), the epilogue, and
/// the scheduler's arguments. A kernel that reads no C ignores the third map, and the host passes D's.
#[derive(Clone, Copy)]
#[allow(clippy::struct_excessive_bools)] // Properties that do not depend on each other.
pub struct Instance {
    /// The kernel.
    pub desc: &'static KernelDesc,
    /// Rows of a CTA's tile of D.
    pub bm: u32,
    /// Columns of a CTA's tile of D.
    pub bn: u32,
    /// Columns of a k tile of A and B.
    pub bk: u32,
    /// Stages of the ring of A and B.
    pub stages: u32,
    /// Bytes of a stage: A, B and their scale factors.
    pub stage_bytes: u32,
    /// Warp groups that multiply a tile.
    pub groups: u32,
    /// How its warp groups divide the tiles among themselves.
    pub kernel_schedule: KernelSchedule,
    /// Whether its CTAs can split the k tiles of a tile. If so, its scheduler is
    /// [`StreamK`](super::scheduler::StreamK), or else [`DataParallel`](super::scheduler::DataParallel).
    pub splits_k: bool,
    /// CTAs of a cluster along M.
    pub cluster_m: u32,
    /// CTAs of a cluster along N.
    pub cluster_n: u32,
    /// Whether A is MN-major: it lies in memory as [K, M].
    pub a_mn_major: bool,
    /// Whether B is MN-major: it lies in memory as [K, N].
    pub b_mn_major: bool,
    /// Whether it computes batches: its tensor maps have three dimensions, and its scheduler is
    /// [`Batched`](super::scheduler::Batched).
    pub batched: bool,
    /// Element type of A and, unless [`b`](Self::b) differs, of B: those of the product, also with swap_ab.
    pub ab: Dtype,
    /// Element type of B.
    pub b: Dtype,
    /// Element type of C and D.
    pub out: Dtype,
    /// Whether the sums of each k tile are added up in f32 ([`Mainloop::PROMOTES`]), and are not kept in the tensor cores.
    pub promotes: bool,
    /// Rows of A, rows of B and elements along K that share a scale factor of the main loop
    /// ([`ScaleConfig::GRANULARITY`]); `None` if it scales nothing.
    pub scale_granularity: Option<[u32; 3]>,
    /// Whether its epilogue reads C.
    pub has_c: bool,
    /// Whether the kernel's A is the product's B, and its rows D's columns.
    pub swap_ab: bool,
    /// Whether D is half as wide as the product ([`Epilogue::GATED`]).
    pub gated: bool,
    /// Whether the epilogue computes an activation of each result ([`Epilogue::ACTIVATES`]).
    pub activates: bool,
}

/// The types of the product's A and B.
const fn operands<G: Config>() -> [Dtype; 2] {
    let a = <<G::A as TileShape>::Element as Element>::DTYPE;
    let b = <<G::B as TileShape>::Element as Element>::DTYPE;
    if <G::Output as Orientation>::SWAP_AB { [b, a] } else { [a, b] }
}

/// Compiled GEMM kernels with the epilogue `E`. [`gemm_kernels!`](crate::gemm_kernels!) makes one.
pub struct Instances<E> {
    /// One row per kernel.
    pub rows: &'static [Instance],
    epilogue: PhantomData<fn() -> E>,
}

impl<E> Instances<E> {
    /// The table of `rows`, whose kernels must all have the epilogue `E`.
    ///
    /// [`gemm_kernels!`](crate::gemm_kernels!) sees to that. The host checks the size, the alignment and the layout of
    /// `E` against each kernel, and refuses a row of another one.
    #[must_use]
    pub const fn of(rows: &'static [Instance]) -> Self {
        Self { rows, epilogue: PhantomData }
    }
}

impl<E> Clone for Instances<E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Instances<E> {}

impl<E> core::ops::Deref for Instances<E> {
    type Target = [Instance];
    fn deref(&self) -> &[Instance] {
        self.rows
    }
}

impl Instance {
    /// Shared memory for each of two CTAs on an SM: half of 228 KiB, less the 1 KiB that the system reserves per
    /// CTA.
    const HALF_SMEM: u32 = 113 * 1024;

    /// The kernel `desc` of configuration `G`, whose ring has `stages` stages.
    #[must_use]
    pub const fn of<G: Config>(
        desc: &'static KernelDesc,
        kernel_schedule: KernelSchedule,
        groups: usize,
        stages: usize,
    ) -> Self {
        Self {
            desc,
            bm: <G::A as TileShape>::ROWS as u32,
            bn: <G::B as TileShape>::ROWS as u32,
            bk: <G::A as TileShape>::COLS as u32,
            stages: stages as u32,
            stage_bytes: (Stage::<G>::SLOT_BYTES + Stage::<G>::BESIDE_BYTES) as u32,
            groups: groups as u32,
            kernel_schedule,
            splits_k: G::Scheduler::SPLITS_K,
            cluster_m: G::Cluster::M as u32,
            cluster_n: G::Cluster::N as u32,
            a_mn_major: <<G::A as TileShape>::Major as Major>::MN,
            b_mn_major: <<G::B as TileShape>::Major as Major>::MN,
            batched: <G::Rank as MapRank>::BATCHED,
            ab: operands::<G>()[0],
            b: operands::<G>()[1],
            out: <<G::Output as Orientation>::Out as Element>::DTYPE,
            promotes: G::Mainloop::PROMOTES,
            scale_granularity: G::Scales::GRANULARITY,
            has_c: G::ReadsC::HOLDS,
            swap_ab: <G::Output as Orientation>::SWAP_AB,
            gated: G::Epilogue::GATED,
            activates: G::Epilogue::ACTIVATES,
        }
    }

    /// Whether two CTAs fit on an SM: one of this grid and one of the dependent grid.
    pub const fn two_fit(&self) -> bool {
        self.desc.meta.min_ctas > 1 && self.desc.meta.smem_bytes <= Self::HALF_SMEM
    }

    /// The scheduler's parameters for a product of `m` x `n` x `k`. With swap_ab, `m` and `n` are those of the
    /// swapped product.
    ///
    /// `group` is the raster swizzle size: rows of cluster tiles in a raster group. The grid has `clusters` clusters,
    /// which split the k tiles of the first `streamed` cluster tiles.
    pub const fn scheduler(
        &self,
        [m, n, k]: [u32; 3],
        group: u32,
        clusters: u32,
        streamed: u32,
    ) -> TileSchedulerParams {
        let tiles = self.cluster_tiles([m, n]);
        TileSchedulerParams::new(tiles, k.div_ceil(self.bk), group, clusters, streamed)
    }

    /// The same for a batch of so many products: the scheduler's parameters, and the cluster tiles of a matrix.
    pub const fn batched_scheduler(
        &self,
        [m, n, k]: [u32; 3],
        batch: u32,
        group: u32,
        clusters: u32,
        streamed: u32,
    ) -> (TileSchedulerParams, FastDivmod) {
        let [rows, cols] = self.cluster_tiles([m, n]);
        let (tiles, k_tiles) = ([rows, cols, batch], k.div_ceil(self.bk));
        let params = TileSchedulerParams::batched(tiles, k_tiles, group, clusters, streamed);
        (params, FastDivmod::new(rows * cols))
    }

    /// Rows and columns of cluster tiles of an `m` x `n` matrix.
    const fn cluster_tiles(&self, [m, n]: [u32; 2]) -> [u32; 2] {
        [m.div_ceil(self.bm * self.cluster_m), n.div_ceil(self.bn * self.cluster_n)]
    }
}
