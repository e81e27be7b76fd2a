//! Ordered loads: y of each tile is loaded after x of the same tile.
//!
//! The kernel computes out = x + y. One warp loads x through one ring, and a second warp loads y through another. Both
//! share the TMA unit, and the consumers wait for x first. So a `LoadOrderBarrier` holds each load of y back until the
//! load of x of the same tile is issued.
//!
//! The barrier is used once per tile, as in Mojo. (CUTLASS and the GEMM of this crate use it once per kernel.) The
//! first warp must then not run two tiles ahead of the second, because the second would miss a phase. The ring of one
//! slot for x prevents that.
#![forbid(unsafe_code)]

use half::bf16;
use isa::kernel;
use pipeline::barrier::LoadOrderBarrier;
use pipeline::prelude::*;

names! { First = "x", Second = "y", Order = "load order" }
roles! { Load = 1 x 40 registers, Add = 1 x 232 registers }

/// 64 rows of 64 elements.
pub type Panel = Tile<bf16, 64, 64>;
type Alone = Cluster<1, 1>;
type Plan = SmemPlan<(
    Ring<1, (Panel,), Tma, Reads<Add>, First, Alone>,
    Ring<1, (Panel,), Tma, Reads<Add>, Second, Alone>,
    StoreBuffers<bf16, 2, Add>,
    LoadOrderBarrier<Order>,
)>;
type ThisCta = Cta<(Load, Add), Alone, Plan>;

/// `out = x + y` for `panels` panels of 64 x 64; CTA i of g takes panels i, i + g, ….
#[kernel]
pub fn ordered_loads(
    cta: ThisCta,
    x: &TensorMap<Panel>,
    y: &TensorMap<Panel>,
    out: &TensorMap<Panel>,
    panels: u32,
) {
    let (cta, (first, second, stores, order)) = cta.init();
    let coord = cta.coord();
    let rows = || (coord.cluster_id()..panels).step_by(coord.clusters() as usize).map(|p| 64 * p);

    cta.specialize(
        // example: two warps
        |load| {
            load.two_warps(
                |warp| {
                    let Some(one) = warp.elect() else { return };
                    let mut loads = first.producer.by(&one);
                    let mut order = order.main_loop.by(&one);
                    for row in rows() {
                        loads.acquire().load((x.tile(row, 0, Peers::ALONE),));
                        order.arrive_and_step();
                    }
                    loads.tail();
                },
                |warp| {
                    let Some(one) = warp.elect() else { return };
                    let mut loads = second.producer.by(&one);
                    let mut order = order.epilogue.by(&one);
                    for row in rows() {
                        order.wait_and_step();
                        loads.acquire().load((y.tile(row, 0, Peers::ALONE),));
                    }
                    loads.tail();
                },
            );
        },
        // end
        |group| {
            let mut xs = first.consumer.by(&group);
            let mut ys = second.consumer.by(&group);
            let mut stores = stores.by(&group);
            for row in rows() {
                let (x, y) = (xs.wait(), ys.wait());
                let mut sum = stores.acquire();
                for fragment in 0..4 {
                    let (a, b) = (x.fragment(&group, fragment), y.fragment(&group, fragment));
                    sum.put(fragment, core::array::from_fn(|i| a[i] + b[i]));
                }
                // y is released first. Releasing x lets the first warp load the next x and arrive. If the second warp
                // still waited for its slot then, this arrival would be the second one ahead of it.
                y.release();
                x.release();
                sum.publish().store(out, row, 0);
            }
            stores.tail();
        },
    );
}
