//! Two producer warps, one for each operand, that arm one slot together; one consumer, one batch in
//! flight. (CUTLASS `PipelineTransactionAsync`.)

use crate::multiply::{Buffer, TileA, TileB, TileD, multiply, write};
use isa::kernel;
use pipeline::prelude::*;

names! { Operands = "operands" }
roles! { Load = 1 x 40 registers, Math = 1 x 232 registers }

type Alone = Cluster<1, 1>;
type ThisCta = Cta<(Load, Math), Alone>;
type Plan = SmemPlan<(Ring<3, (TileA, TileB), TmaParts, Mma<Math>, Operands, Alone>, Buffer<Math>)>;

/// `tiles` tiles below each other, `steps` steps each; CTA i of g takes tiles i, i + g, ….
#[kernel(threads = ThisCta::THREADS, smem = Plan::BYTES)]
pub fn two_loaders(
    cta: ThisCta,
    a: &TensorMap<TileA>,
    b: &TensorMap<TileB>,
    d: &TensorMap<TileD>,
    tiles: u32,
    steps: u32,
) {
    let (cta, (ring, stores)) = Plan::init(cta);
    let coord = cta.coord();
    let (part_a, part_b) = ring.producer.parts();
    let rows = || (coord.cluster_id()..tiles).step_by(coord.clusters() as usize).map(|t| 64 * t);
    cta.specialize(
        |load| {
            load.warps(
                |warp| {
                    let Some(one) = warp.elect() else { return };
                    let mut loads = part_a.by(&one);
                    for row in rows() {
                        for k in 0..steps {
                            loads.acquire().load(a.tile(row, 64 * k, Peers::ALONE));
                        }
                    }
                    loads.tail();
                },
                |warp| {
                    let Some(one) = warp.elect() else { return };
                    let mut loads = part_b.by(&one);
                    for _ in rows() {
                        for k in 0..steps {
                            loads.acquire().load(b.tile(0, 64 * k, Peers::ALONE));
                        }
                    }
                    loads.tail();
                },
                |_| {},
                |_| {},
            );
        },
        |group| {
            let mut operands = ring.consumer.by(&group);
            let mut stores = stores.by(&group);
            if steps > 0 {
                for row in rows() {
                    let sum = multiply(&group, &mut operands, steps);
                    write(&sum, &mut stores, d, row, 0);
                }
            }
            stores.tail();
        },
    );
}
