//! Warp specialisation with an idle warp group, in a cluster whose CTAs exit one by one, with rings that
//! never become full. (CUTLASS `pipeline_tma_async_warp_specialized`.)

use crate::multiply::{Buffer, TileA, TileB, TileD, multiply, write};
use isa::kernel;
use pipeline::cta::{AlongM, AlongN};
use pipeline::prelude::*;

names! { Operands = "operands" }
roles! {
    Load = 1 x 40 registers,
    Idle = 1 x 24 registers,
    Math = 1 x 232 registers,
}

type Pair = Cluster<2, 1>;
type Plan = SmemPlan<(Ring<8, (TileA, TileB), Tma, Mma<Math>, Operands, Pair>, Buffer<Math>)>;
type ThisCta = Cta<(Load, Idle, Math), Pair, Plan>;

/// Computes one tile of 128 x 32 for the cluster, with `steps` k tiles.
#[kernel]
pub fn idle_group(
    cta: ThisCta,
    a: &TensorMap<TileA, AlongN<1>>,
    b: &TensorMap<TileB, AlongM<2>>,
    d: &TensorMap<TileD>,
    steps: u32,
) {
    let (cta, (ring, stores)) = cta.init();
    let coord = cta.coord();
    let row = 64 * coord.m();
    cta.specialize(
        |load| {
            load.four_warps(
                // Here the loading warp is not the first one.
                |_| {},
                |_| {},
                |warp| {
                    let Some(one) = warp.elect() else { return };
                    let mut loads = ring.producer.by(&one);
                    for k in 0..steps {
                        loads.acquire().load((
                            a.tile(row, 64 * k, coord.sharing_a()),
                            b.tile(0, 64 * k, coord.sharing_b()),
                        ));
                    }
                    loads.tail();
                },
                |_| {},
            );
        },
        |_| {},
        |group| {
            let mut operands = ring.consumer.by(&group);
            let mut stores = stores.by(&group);
            if steps > 0 {
                let sum = multiply(&group, &mut operands, steps);
                write(&sum, &mut stores, d, row, 0);
            }
            stores.tail();
        },
    );
}
