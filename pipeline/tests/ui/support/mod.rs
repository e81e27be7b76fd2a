//! What the cases share: tiles, names, roles, and the parts of a copy that a case is not about.
#![allow(dead_code, unused_imports, missing_docs)]

pub use half::bf16;
pub use warpipe_pipeline::barrier::{
    LoadOrderBarrier, NamedBarrier, NamedSequence, NamedSequenceEnd, NamedTurns,
};
pub use warpipe_pipeline::cta::{AlongM, AlongN, ClusterCoord, ClusterShape, Elected, Role};
pub use warpipe_pipeline::grid::DependentSlice;
pub use warpipe_pipeline::mma::{AFragment, SplitAccumulator};
pub use warpipe_pipeline::prelude::*;
pub use warpipe_pipeline::ring::{
    Consumer, ConsumerEnd, CpAsync, EmptySlot, FullSlot, MmaInTurn, PipelineState, Producer,
    ProducerEnd, RetiredSlot,
};
pub use warpipe_pipeline::store::{StoreEnd, Stores};
pub use warpipe_pipeline::tile::MatrixView;

names! { Main = "main loop", Other = "other", Order = "order", Meet = "meet", Raw = "raw" }
roles! {
    Load = 1 x 40 registers,
    Work = 1 x 232 registers,
    Pair = 2 x 168 registers,
}

pub type Panel = Tile<bf16, 64, 64>;
pub type Alone = Cluster<1, 1>;
pub type ThisCta<P = Plan> = Cta<(Load, Work), Alone, P>;
pub type One = Elected<Load, Alone>;
pub type Group = Warpgroup<Work, Alone>;

/// A ring of panels that are read with ordinary loads.
pub type PanelRing<N = Main, const STAGES: usize = 2> =
    Ring<STAGES, (Panel,), Tma, Reads<Work>, N, Alone>;
pub type Loads<N = Main, const STAGES: usize = 2> = Producer<STAGES, (Panel,), N>;
pub type Arrived<N = Main, const STAGES: usize = 2> =
    Consumer<STAGES, (Panel,), Reads<Work>, N, Alone>;

/// A pair of operands that wgmma reads.
pub type Operands = (Panel, Panel);
pub type MmaRing<N = Main> = Ring<2, Operands, Tma, Mma<Work>, N, Alone>;
pub type MmaSlot<N = Main> = FullSlot<Operands, Mma<Work>, N, Alone>;

/// Buffers for the panels that go out.
pub type Buffers = StoreBuffers<bf16, 2, Work>;
pub type Out<'g> = Stores<'g, bf16, 2, Work, Alone>;

/// What a copy keeps in shared memory.
pub type Plan<const STAGES: usize = 2> = SmemPlan<(PanelRing<Main, STAGES>, Buffers)>;
/// Panels of a copy.
pub const PANELS: u32 = 4;

/// One thread of `Load` runs `f`.
pub fn one_thread(load: Warpgroup<Load, Alone>, f: impl FnOnce(One)) {
    load.elect(f);
}

/// Loads every panel.
pub fn load_panels<N: warpipe_pipeline::ring::Name, const STAGES: usize>(
    end: ProducerEnd<STAGES, (Panel,), Tma, Reads<Work>, N, Alone>,
    one: &One,
    from: &TensorMap<Panel>,
) {
    let mut loads = end.by(one);
    for panel in 0..PANELS {
        loads.acquire().load((from.tile(64 * panel, 0, Peers::ALONE),));
    }
    loads.tail();
}

/// Writes every panel as it came.
pub fn store_panels<N: warpipe_pipeline::ring::Name, const STAGES: usize>(
    end: ConsumerEnd<STAGES, (Panel,), Reads<Work>, N, Alone>,
    stores: StoreEnd<bf16, 2, Work>,
    group: &Group,
    to: &TensorMap<Panel>,
) {
    let (mut arrived, mut stores) = (end.by(group), stores.by(group));
    for panel in 0..PANELS {
        let slot = arrived.wait();
        let mut out = stores.acquire();
        for fragment in 0..4 {
            out.put(fragment, slot.fragment(group, fragment));
        }
        slot.release();
        out.publish().store(to, 64 * panel, 0);
    }
    stores.tail();
}
