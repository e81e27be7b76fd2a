//! Ping-pong: two warp groups take turns at the tensor cores.
//!
//! ```text
//! group 0   multiply tile 0 │ write tile 0     │ multiply tile 2 │ write tile 2
//! group 1                   │ multiply tile 1  │ write tile 1    │ multiply tile 3 …
//! ```
//!
//! Each tile belongs to one warp group. That group reads the tile's slots, and the other one skips them (`MmaInTurn`).
//! The ordered sequence has two sections: the main loop and the epilogue. A warp group waits for its turn at the start
//! of a section, and passes the turn on at its end.
#![forbid(unsafe_code)]

use half::bf16;
use isa::kernel;
use pipeline::barrier::OrderedSequence;
use pipeline::prelude::*;
use pipeline::ring::MmaInTurn;

names! { Operands = "operands", Turns = "turns" }
roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }

/// 64 rows of A or of D.
pub type TileA = Tile<bf16, 64, 64>;
/// 128 rows of B, which are columns of D.
pub type TileB = Tile<bf16, 128, 64>;
type Alone = Cluster<1, 1>;
type Plan = SmemPlan<(
    Ring<6, (TileA, TileB), Tma, MmaInTurn<Math>, Operands, Alone>,
    StoreBuffers<bf16, 2, Math>,
    OrderedSequence<2, Math, Turns>,
)>;
type ThisCta = Cta<(Load, Math), Alone, Plan>;

/// D = A·Bᵀ in `tiles_m` x `tiles_n` tiles of 64 x 128, with `k_tiles` k tiles each. CTA i of g takes tiles i, i + g,
/// …, and its warp groups take these in turn.
#[kernel]
pub fn ping_pong(
    cta: ThisCta,
    a: &TensorMap<TileA>,
    b: &TensorMap<TileB>,
    d: &TensorMap<TileA>,
    tiles_m: u32,
    tiles_n: u32,
    k_tiles: u32,
) {
    let (cta, (ring, stores, turns)) = cta.init();
    let coord = cta.coord();
    let tiles = || {
        (coord.cluster_id()..tiles_m * tiles_n)
            .step_by(coord.clusters() as usize)
            .map(|tile| (tile % tiles_m * 64, tile / tiles_m * 128))
    };

    cta.specialize(
        |load| {
            load.elect(|one| {
                let mut loads = ring.producer.by(&one);
                for (row, col) in tiles() {
                    for k in 0..k_tiles {
                        loads.acquire().load((
                            a.tile(row, 64 * k, Peers::ALONE),
                            b.tile(col, 64 * k, Peers::ALONE),
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
            // example: turns
            for (nth, (row, col)) in tiles().enumerate() {
                if nth as u32 % 2 != group.index() {
                    operands.skip(k_tiles);
                    continue;
                }
                let multiply = turns.wait();
                let mut sum = Accumulator::<128>::start(&group, operands.wait());
                for _ in 1..k_tiles {
                    sum.next(operands.wait()).release();
                }
                multiply.pass_on();
                let (sum, last) = sum.finish();
                last.release();

                let write = turns.wait();
                for panel in 0..2 {
                    let mut out = stores.acquire();
                    for fragment in 0..4 {
                        out.put(fragment, sum.fragment(4 * panel + fragment));
                    }
                    out.publish().store(d, row, col + 64 * panel as u32);
                }
                write.pass_on();
            }
            // end
            stores.tail();
        },
    );
}
