//! Two to five warp groups take turns over tiles, in two sections: main loop and epilogue.
//! (CUTLASS `OrderedSequenceBarrier` of depth 2, and the persistent ping-pong.)
//!
//! The result shows that every tile was computed. A chain that each turn extends shows the order, and that
//! no two turns of a section overlapped.

use crate::multiply::{Buffer, TileA, TileB, TileD, multiply, write};
use isa::kernel;
use isa::slice::DeviceSliceMut;
use pipeline::barrier::OrderedSequence;
use pipeline::cta::Role;
use pipeline::prelude::*;
use pipeline::ring::MmaInTurn;

names! { Operands = "operands", Turns = "turns" }
roles! {
    Load = 1 x 40 registers,
    /// Ping-pong.
    Two = 2 x 200 registers,
    /// Three in turn.
    Three = 3 x 152 registers,
    /// Four in turn.
    Four = 4 x 104 registers,
    /// Five in turn.
    Five = 5 x 88 registers,
}

type Alone = Cluster<1, 1>;
type Plan<Ro> = SmemPlan<(
    Ring<5, (TileA, TileB), Tma, MmaInTurn<Ro>, Operands, Alone>,
    Buffer<Ro>,
    OrderedSequence<2, Ro, Turns>,
)>;
type ThisCta<Ro> = Cta<(Load, Ro), Alone, Plan<Ro>>;

/// The chain after one more link. The result depends on the order of the links.
#[inline(always)]
#[must_use]
pub const fn link(chain: u32, tile: u32) -> u32 {
    chain.wrapping_mul(31).wrapping_add(tile + 1)
}

/// Extends chain `at`. The access is not atomic, because the turns exclude one another.
#[inline(always)]
fn extend<Ro: Role>(
    group: &Warpgroup<Ro, Alone>,
    chains: &DeviceSliceMut<u32>,
    at: usize,
    tile: u32,
) {
    if group.thread() == 0
        && let Some(chain) = chains.get(at)
    {
        chains.set(at, link(chain, tile));
    }
}

/// Computes `tiles` tiles along M with `steps` k tiles each (at least one). CTA i of g computes tiles i,
/// i + g, … and extends chains 2i (main loop) and 2i + 1 (epilogue).
#[inline(always)]
fn in_turn<Ro: Role>(
    cta: ThisCta<Ro>,
    a: &TensorMap<TileA>,
    b: &TensorMap<TileB>,
    d: &TensorMap<TileD>,
    chains: &DeviceSliceMut<u32>,
    tiles: u32,
    steps: u32,
) {
    let (cta, (ring, stores, turns)) = cta.init();
    let coord = cta.coord();
    let tiles = || (coord.cluster_id()..tiles).step_by(coord.clusters() as usize);
    let chain = 2 * coord.cluster_id() as usize;
    cta.specialize(
        |load| {
            load.elect(|one| {
                let mut loads = ring.producer.by(&one);
                for tile in tiles() {
                    for k in 0..steps {
                        loads.acquire().load((
                            a.tile(64 * tile, 64 * k, Peers::ALONE),
                            b.tile(0, 64 * k, Peers::ALONE),
                        ));
                    }
                }
                loads.tail();
            });
        },
        |group| {
            let mut operands = ring.consumer.by(&group);
            let mut stores = stores.by(&group);
            let mut turns = turns.by(&group);
            for (nth, tile) in tiles().enumerate() {
                if nth as u32 % Ro::GROUPS as u32 != group.index() {
                    operands.skip(steps);
                    continue;
                }
                let turn = turns.wait();
                extend(&group, chains, chain, tile);
                let sum = multiply(&group, &mut operands, steps);
                turn.pass_on();

                let turn = turns.wait();
                extend(&group, chains, chain + 1, tile);
                write(&sum, &mut stores, d, 64 * tile, 0);
                turn.pass_on();
            }
            stores.tail();
        },
    );
}

/// One of the kernels below.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy)]
pub struct Instance {
    /// The kernel.
    pub desc: &'static isa::kernel::KernelDesc,
    /// Warp groups that take turns.
    pub groups: u32,
}

macro_rules! instances {
    ($($name:ident: $role:ident;)+) => {
        $(
            /// An instance of the table in this file.
            #[kernel]
            pub fn $name(
                cta: ThisCta<$role>,
                a: &TensorMap<TileA>,
                b: &TensorMap<TileB>,
                d: &TensorMap<TileD>,
                chains: DeviceSliceMut<u32>,
                tiles: u32,
                steps: u32,
            ) {
                in_turn::<$role>(cta, a, b, d, &chains, tiles, steps);
            }
        )+

        /// Every instance.
        #[cfg(not(target_arch = "nvptx64"))]
        pub const INSTANCES: &[Instance] = &[$(Instance {
            desc: &<$name as kernel::Kernel>::DESC,
            groups: $role::GROUPS as u32,
        }),+];
    };
}

instances! {
    in_turn_2: Two;
    in_turn_3: Three;
    in_turn_4: Four;
    in_turn_5: Five;
}
