//! The parts of a GEMM kernel, as types. The [kernel](super::kernel::gemm) is generic over them.

use super::epilogue::Epilogue;
use super::output::{Orientation, Output, SOURCE_STAGES, STORE_STAGES, Source};
use super::rank::MapRank;
use super::scales::ScaleConfig;
use super::scheduler::TileScheduler;
use isa::kernel::KernelArg;
use pipeline::barrier::LoadOrderBarrier;
use pipeline::cta::{ClusterShape, Condition, Region, Role, Unshared, When};
use pipeline::grid::Throttle;
use pipeline::prelude::*;
use pipeline::ring::{Consumer, MmaReaders, OrdinaryReads};
use pipeline::tile::TileShape;

names! {
    /// The ring of A and B tiles.
    MainLoop = "main loop",
    /// Orders the first load of C after the loads of A and B for the first tile.
    Order = "load order",
}

#[cfg(not(feature = "trace"))]
roles! {
    /// The producer: it issues the loads, and needs registers only for addresses.
    Load = 1 x 40 registers,
    /// Two consumer warp groups. A thread has up to 128 accumulators, and the epilogue's working set.
    Math2 = 2 x 232 registers,
    /// One consumer warp group. The registers of an SM are enough for two such CTAs.
    Math1 = 1 x 216 registers,
    /// Three consumer warp groups. A thread has up to 96 accumulators.
    Math3 = 3 x 152 registers,
}

// A thread that records a trace keeps three more registers.
#[cfg(feature = "trace")]
roles! {
    /// As above.
    Load = 1 x 56 registers,
    /// As above.
    Math2 = 2 x 224 registers,
    /// As above.
    Math1 = 1 x 200 registers,
    /// As above.
    Math3 = 3 x 144 registers,
}

/// One GEMM kernel: D = epilogue(A·Bᵀ), in tiles of `BM` x `BN`.
///
/// Each instance names all of these types, because stable Rust can't compute a tile's type from numbers. The
/// kernel checks that they fit together.
pub trait Config: Sized + 'static {
    /// A CTA's tile of A: `BM` rows, one k tile of columns. It is K-major or MN-major, as A lies in memory.
    type A: TileShape;
    /// A CTA's tile of B: `BN` rows, one k tile of columns, K-major or MN-major.
    type B: TileShape;
    /// The scale factors that the main loop applies: [`Unscaled`](super::scales::Unscaled), or
    /// [`Blockwise`](super::scales::Blockwise).
    type Scales: ScaleConfig<Self::A, Self::B, Self::Cluster>;
    /// The CTAs that share the loads of A and B.
    type Cluster: ClusterShape;
    /// The warp groups that multiply.
    type Math: Role;
    /// The ring of A and B: [`OperandRing`] with the number of its stages.
    type Operands: Region;
    /// The store buffers: [`StoresOf`] with the number that each warp group has.
    type Stores: Region;
    /// How the warp groups divide the tiles among themselves, and when they store a tile.
    type Mainloop: Mainloop<Self>;
    /// How the accumulators lie in D, and the type of D's elements.
    type Output: Orientation;
    /// The epilogue: what is stored in place of the sums.
    type Epilogue: Epilogue;
    /// Whether the epilogue gets C, an M x N matrix of D's type.
    type ReadsC: Condition;
    /// Whether the tensor maps are matrices or batches of them.
    type Rank: MapRank;
    /// Which CTA computes which k tiles of which tiles.
    type Scheduler: TileScheduler<Self::Cluster>;
}

/// The main loop of the consumers: how a warp group multiplies its tiles, and when it stores them. (CUTLASS: a
/// kernel schedule, and the consumer side of its collective main loop.)
pub trait Mainloop<G: Config>: Sized + 'static {
    /// How warp groups read the ring of A and B: all of them read every slot, or they read slots in turn.
    type Readers: MmaReaders<Role = G::Math>;
    /// How warp groups read the ring of C.
    type SourceReaders: OrdinaryReads<Role = G::Math>;
    /// A slot of the ring of C. It has as many rows as the warp groups read together.
    type SourceTile: TileShape<Element = <G::Output as Orientation>::Out>;
    /// What orders the main loops of the warp groups; `()` if nothing does.
    type Turns: Region;
    /// What orders the reads of C by the warp groups; `()` if all of them read every slot of its ring. It is part of
    /// the plan only if the kernel reads C.
    type SourceTurns: Region;
    /// Whether the sums of each k tile leave the tensor cores and are added up in f32 (CUTLASS: no `FP8FastAccum`). It
    /// makes a difference for operands of 8-bit floats only, whose sums the tensor cores keep short.
    const PROMOTES: bool = false;
    /// Tiles of C below one another in a tile of D.
    const SOURCE_ROWS: usize;
    /// Tiles of C side by side in a tile of D.
    const SOURCE_COLS: usize;
    /// First column of tile `index` of C in a row of tiles, in the order in which the epilogue reads them.
    fn source_column(index: usize) -> usize;

    /// Multiplies and stores all tiles of a warp group. `STAGES` and `STORES` are the numbers of [`Config::Operands`] and
    /// [`Config::Stores`].
    ///
    /// Waits for full slots and releases them. Storing waits as [`Output::store`] does.
    fn run<const STAGES: usize, const STORES: usize>(
        work: G::Scheduler,
        operands: Consumer<STAGES, Stage<G>, Self::Readers, MainLoop, G::Cluster>,
        turns: TurnsOf<G, Self>,
        out: &mut OutputOf<'_, G, Self, STORES>,
    );
}

/// What a slot of the ring of A and B holds.
pub type Stage<G> = <<G as Config>::Scales as ScaleConfig<
    <G as Config>::A,
    <G as Config>::B,
    <G as Config>::Cluster,
>>::Slot;
/// How warp groups that multiply each tile together read the ring of A and B.
pub type StageReaders<G> = <<G as Config>::Scales as ScaleConfig<
    <G as Config>::A,
    <G as Config>::B,
    <G as Config>::Cluster,
>>::Readers<<G as Config>::Math>;
/// What the kernel gets for its scale factors.
pub type ScaleArgs<'a, G> = <<G as Config>::Scales as ScaleConfig<
    <G as Config>::A,
    <G as Config>::B,
    <G as Config>::Cluster,
>>::Args<'a>;
/// Element of C and D.
pub type Out<G> = <<G as Config>::Output as Orientation>::Out;
/// A slot of the ring of C.
pub type SourceTile<G> = <<G as Config>::Mainloop as Mainloop<G>>::SourceTile;
/// How warp groups read the ring of C.
pub type SourceReaders<G> = <<G as Config>::Mainloop as Mainloop<G>>::SourceReaders;

/// The ring of A and B tiles.
pub type OperandRing<G, const STAGES: usize> = Ring<
    STAGES,
    Stage<G>,
    Tma,
    <<G as Config>::Mainloop as Mainloop<G>>::Readers,
    MainLoop,
    <G as Config>::Cluster,
>;
/// The store buffers, `STORES` for each warp group.
pub type StoresOf<G, const STORES: usize> = StoreBuffers<Out<G>, STORES, <G as Config>::Math>;
/// The ring of C's tiles.
pub type SourceRing<G> =
    Ring<SOURCE_STAGES, (SourceTile<G>,), Tma, SourceReaders<G>, Source, <G as Config>::Cluster>;

/// The shared memory of a CTA. The tiles come first, side by side, because they need alignment; then the barriers.
pub type Plan<G> = SmemPlan<(
    <G as Config>::Stores,
    <G as Config>::Operands,
    When<<G as Config>::ReadsC, SourceRing<G>>,
    LoadOrderBarrier<Order>,
    <<G as Config>::Mainloop as Mainloop<G>>::Turns,
    When<<G as Config>::ReadsC, <<G as Config>::Mainloop as Mainloop<G>>::SourceTurns>,
)>;

/// The CTA of a GEMM.
pub type GemmCta<G> = Cta<(Load, <G as Config>::Math), <G as Config>::Cluster, Plan<G>>;
/// A tensor map of the kernel's rank, of tiles `T`.
pub type MapOf<G, T, P> = <<G as Config>::Rank as MapRank>::Map<T, P>;
/// Tensor map of A, whose tiles are multicast along N.
pub type MapA<G> = MapOf<G, <G as Config>::A, <<G as Config>::Cluster as ClusterShape>::SharesA>;
/// Tensor map of B, whose tiles are multicast along M.
pub type MapB<G> = MapOf<G, <G as Config>::B, <<G as Config>::Cluster as ClusterShape>::SharesB>;
/// Tensor map of C. A kernel that reads no C ignores it.
pub type MapC<G> = MapOf<G, SourceTile<G>, Unshared>;
/// Tensor map of D.
pub type MapD<G> = <<G as Config>::Output as Orientation>::Map<<G as Config>::Rank>;
/// Tensor map of a D that is one matrix, or a batch of them.
pub type MatrixMap<G> = MapOf<G, <<G as Config>::Output as Orientation>::EpilogueTile, Unshared>;
/// The scheduler's kernel argument.
pub type SchedulerArgs<G> =
    <<G as Config>::Scheduler as TileScheduler<<G as Config>::Cluster>>::Args;
/// The ends of [`Mainloop::Turns`] and, if the kernel reads C, of [`Mainloop::SourceTurns`], for the main loop `L`.
pub type TurnsOf<G, L> = (
    <<L as Mainloop<G>>::Turns as Region>::Ends,
    Option<<<L as Mainloop<G>>::SourceTurns as Region>::Ends>,
);
/// The epilogue and store path of a warp group, for the main loop `L`.
pub type OutputOf<'g, G, L, const STORES: usize = STORE_STAGES> = Output<
    'g,
    <G as Config>::Output,
    <G as Config>::Epilogue,
    <L as Mainloop<G>>::SourceTile,
    <L as Mainloop<G>>::SourceReaders,
    <G as Config>::Cluster,
    <G as Config>::Rank,
    STORES,
>;

/// The kernel argument for the loads of A and B.
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct LoadArgs<'a> {
    /// How many k tiles of its first tile a CTA prefetches into the L2 cache before `griddepcontrol.wait`.
    pub prefetch: u32,
    /// Epochs of the throttle ([`Throttle::epochs`]).
    pub epochs: u32,
    /// K tiles of an epoch.
    pub epoch: u32,
    /// Keeps the CTAs of the grid at about the same k tile.
    pub throttle: Throttle<'a>,
}
