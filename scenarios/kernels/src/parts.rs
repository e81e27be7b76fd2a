//! Several producer warps fill one slot, each with its own tile. One kernel has two producers and one wgmma
//! batch in flight; the other has four producers and ordinary reads. (CUTLASS `PipelineTransactionAsync`.)

use crate::multiply::{Buffer, TileA, TileB, TileD, multiply, write};
use half::{bf16, f16};
use isa::kernel;
use pipeline::cta::Warp;
use pipeline::prelude::*;
use pipeline::ring::Stage;
use pipeline::ring::{PartEnd, TmaParts};
use pipeline::tile::TileShape;

names! { Operands = "operands" }
roles! { Load = 1 x 40 registers, Math = 1 x 232 registers }

type Alone = Cluster<1, 1>;
type Plan = SmemPlan<(Ring<3, (TileA, TileB), TmaParts, Mma<Math>, Operands, Alone>, Buffer<Math>)>;
type ThisCta<P> = Cta<(Load, Math), Alone, P>;

/// Computes `tiles` tiles along M with `steps` k tiles each. CTA i of g computes tiles i, i + g, ….
#[kernel]
pub fn two_loaders(
    cta: ThisCta<Plan>,
    a: &TensorMap<TileA>,
    b: &TensorMap<TileB>,
    d: &TensorMap<TileD>,
    tiles: u32,
    steps: u32,
) {
    let (cta, (ring, stores)) = cta.init();
    let coord = cta.coord();
    let (part_a, part_b) = ring.producer.parts();
    let rows = || (coord.cluster_id()..tiles).step_by(coord.clusters() as usize).map(|t| 64 * t);
    cta.specialize(
        |load| {
            load.two_warps(
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

/// Four addends of three element types.
type Addends = (Tile<bf16, 64, 64>, Tile<f16, 64, 64>, Tile<f32, 64, 32>, Tile<bf16, 64, 64>);
type SumPlan = SmemPlan<(
    Ring<3, Addends, TmaParts, Reads<Math>, Operands, Alone>,
    StoreBuffers<bf16, 2, Math>,
)>;

/// Computes `out = a + 2 b - d` for `panels` panels of 64 x 64, and adds `c` in their first 32 columns. A
/// warp of its own loads each addend. CTA i of g computes panels i, i + g, ….
#[kernel]
pub fn four_loaders(
    cta: ThisCta<SumPlan>,
    a: &TensorMap<Tile<bf16, 64, 64>>,
    b: &TensorMap<Tile<f16, 64, 64>>,
    c: &TensorMap<Tile<f32, 64, 32>>,
    d: &TensorMap<Tile<bf16, 64, 64>>,
    out: &TensorMap<Tile<bf16, 64, 64>>,
    panels: u32,
) {
    let (cta, (ring, stores)) = cta.init();
    let coord = cta.coord();
    let (part_a, part_b, part_c, part_d) = ring.producer.parts();
    let rows = || (coord.cluster_id()..panels).step_by(coord.clusters() as usize).map(|p| 64 * p);
    cta.specialize(
        |load| {
            load.four_warps(
                |warp| load_part(warp, part_a, a, rows()),
                |warp| load_part(warp, part_b, b, rows()),
                |warp| load_part(warp, part_c, c, rows()),
                |warp| load_part(warp, part_d, d, rows()),
            );
        },
        |group| {
            let mut addends = ring.consumer.by(&group);
            let mut stores = stores.by(&group);
            for row in rows() {
                let slot = addends.wait();
                let mut sum = stores.acquire();
                for fragment in 0..4 {
                    let (a, b) = (
                        slot.fragment_of::<0>(&group, fragment),
                        slot.fragment_of::<1>(&group, fragment),
                    );
                    let d = slot.fragment_of::<3>(&group, fragment);
                    let c = if fragment < 2 {
                        slot.fragment_of::<2>(&group, fragment)
                    } else {
                        [0.0; 8]
                    };
                    sum.put(fragment, core::array::from_fn(|i| a[i] + 2.0 * b[i] + c[i] - d[i]));
                }
                slot.release();
                sum.publish().store(out, row, 0);
            }
            stores.tail();
        },
    );
}

/// The producer loop of a warp: one thread loads a tile into each slot.
#[inline(always)]
fn load_part<S: Stage, T: TileShape>(
    warp: Warp<Load, Alone>,
    part: PartEnd<3, S, T, Operands, Alone>,
    from: &TensorMap<T>,
    rows: impl Iterator<Item = u32>,
) {
    let Some(one) = warp.elect() else { return };
    let mut loads = part.by(&one);
    for row in rows {
        loads.acquire().load(from.tile(row, 0, Peers::ALONE));
    }
    loads.tail();
}
