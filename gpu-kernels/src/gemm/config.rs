//! The parts of a GEMM kernel, as types: what the [kernel](super::kernel::gemm) is generic over.

use super::epilogue::Epilogue;
use super::output::{Orientation, Output, SOURCE_STAGES, STORE_STAGES, Source};
use super::scheduler::TileScheduler;
use isa::kernel::KernelArg;
use pipeline::barrier::LoadOrderBarrier;
use pipeline::cta::{ClusterShape, Condition, Region, Role, When};
use pipeline::grid::Throttle;
use pipeline::prelude::*;
use pipeline::ring::{Consumer, MmaReaders, OrdinaryReads};
use pipeline::tile::TileShape;

names! {
    /// The ring of A and B tiles.
    MainLoop = "main loop",
    /// Orders the first load of C behind those of the first tile's A and B.
    Order = "load order",
}

#[cfg(not(feature = "trace"))]
roles! {
    /// Issues the loads; its threads compute addresses.
    Load = 1 x 40 registers,
    /// Multiplies: up to 128 sums a thread, and the epilogue's working set.
    Math2 = 2 x 232 registers,
    /// One warp group that multiplies. An SM's registers are enough for two such CTAs.
    Math1 = 1 x 216 registers,
}

// A thread that records what it does has three registers more to keep.
#[cfg(feature = "trace")]
roles! {
    /// As above.
    Load = 1 x 56 registers,
    /// As above.
    Math2 = 2 x 224 registers,
    /// As above.
    Math1 = 1 x 200 registers,
}

/// One GEMM kernel: D = epilogue(A·Bᵀ), in tiles of `BM` x `BN`.
///
/// Everything is a type that the instance names, because stable Rust can't compute one tile's type from
/// another's numbers. The kernel checks that they fit together.
pub trait Config: Sized + 'static {
    /// A CTA's tile of A: `BM` rows, one k tile of columns.
    type A: TileShape;
    /// A CTA's tile of B: `BN` rows, one k tile of columns.
    type B: TileShape;
    /// The CTAs that share the loads of A and B.
    type Cluster: ClusterShape;
    /// The warp groups that multiply.
    type Math: Role;
    /// The ring of A and B: [`OperandRing`] with the number of its stages.
    type Operands: Region;
    /// How the warp groups share out the tiles, and when a tile is stored.
    type Mainloop: Mainloop<Self>;
    /// How sums lie in D, and what D's elements are.
    type Output: Orientation;
    /// What becomes of the sums.
    type Epilogue: Epilogue;
    /// Whether the epilogue gets C, an M x N matrix of D's type.
    type ReadsC: Condition;
    /// Which CTA computes what.
    type Scheduler: TileScheduler<Self::Cluster>;
}

/// The main loop seam: how a warp group multiplies its tiles, and when it stores them. (CUTLASS: a kernel
/// schedule, and the consumer side of its collective.)
pub trait Mainloop<G: Config>: Sized + 'static {
    /// How warp groups read the operands' ring: all of them every slot, or in turn.
    type Readers: MmaReaders<Role = G::Math>;
    /// How they read the source's ring.
    type SourceReaders: OrdinaryReads<Role = G::Math>;
    /// A slot of the source's ring: as many rows as are read together.
    type SourceTile: TileShape<Element = <G::Output as Orientation>::Out>;
    /// What orders the warp groups, if anything does.
    type Turns: Region;
    /// Source tiles below each other in a tile of D.
    const SOURCE_ROWS: usize;
    /// Source tiles side by side in a tile of D.
    const SOURCE_COLS: usize;
    /// First column of source tile `index` of a row of them, in the order in which they are stored.
    fn source_column(index: usize) -> usize;

    /// Multiplies and stores all work of a warp group.
    ///
    /// Waits for full slots, and for what `out` waits for. Signals empty slots.
    fn run<const STAGES: usize>(
        work: G::Scheduler,
        operands: Consumer<STAGES, Stage<G>, Self::Readers, MainLoop, G::Cluster>,
        turns: <Self::Turns as Region>::Ends,
        out: &mut OutputOf<'_, G, Self>,
    );
}

/// What a slot of the operands' ring holds.
pub type Stage<G> = (<G as Config>::A, <G as Config>::B);
/// Element of C and D.
pub type Out<G> = <<G as Config>::Output as Orientation>::Out;
/// A slot of the source's ring.
pub type SourceTile<G> = <<G as Config>::Mainloop as Mainloop<G>>::SourceTile;
/// How the source's ring is read.
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
/// The ring of C's panels.
pub type SourceRing<G> =
    Ring<SOURCE_STAGES, (SourceTile<G>,), Tma, SourceReaders<G>, Source, <G as Config>::Cluster>;

/// What a CTA keeps in shared memory: tiles, which are aligned, side by side, then barriers.
pub type Plan<G> = SmemPlan<(
    StoreBuffers<Out<G>, STORE_STAGES, <G as Config>::Math>,
    <G as Config>::Operands,
    When<<G as Config>::ReadsC, SourceRing<G>>,
    LoadOrderBarrier<Order>,
    <<G as Config>::Mainloop as Mainloop<G>>::Turns,
)>;

/// The CTA of a GEMM.
pub type GemmCta<G> = Cta<(Load, <G as Config>::Math), <G as Config>::Cluster, Plan<G>>;
/// Tensor map of A, whose tiles are multicast along N.
pub type MapA<G> = TensorMap<<G as Config>::A, <<G as Config>::Cluster as ClusterShape>::SharesA>;
/// Tensor map of B, whose tiles are multicast along M.
pub type MapB<G> = TensorMap<<G as Config>::B, <<G as Config>::Cluster as ClusterShape>::SharesB>;
/// Tensor map of C. A kernel that reads no C ignores it.
pub type MapC<G> = TensorMap<SourceTile<G>>;
/// Tensor map of D.
pub type MapD<G> = TensorMap<<<G as Config>::Output as Orientation>::EpilogueTile>;
/// What the scheduler gets from the host.
pub type SchedulerArgs<G> =
    <<G as Config>::Scheduler as TileScheduler<<G as Config>::Cluster>>::Args;
/// What a warp group stores tiles with, in the main loop `L`.
pub type OutputOf<'g, G, L> = Output<
    'g,
    <G as Config>::Output,
    <G as Config>::Epilogue,
    <L as Mainloop<G>>::SourceTile,
    <L as Mainloop<G>>::SourceReaders,
    <G as Config>::Cluster,
>;

/// What the loads of A and B get from the host.
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct LoadArgs<'a> {
    /// K tiles of its first work that a CTA prefetches into the L2 cache before `griddepcontrol.wait`.
    pub prefetch: u32,
    /// Keeps the CTAs of the grid at about the same k tile.
    pub throttle: Throttle<'a>,
}
