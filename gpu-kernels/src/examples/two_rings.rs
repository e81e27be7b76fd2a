//! Two rings in series: one role loads, the next transforms in registers, and the last stores.
//!
//! ```text
//! Load ──TMA──► ring "raw" ──► Transform: f(x) ──stores──► ring "ready" ──► Store ──TMA──► out
//! ```
//!
//! `Transform` is the consumer of one ring and the producer of the next. The kernel states no arrival counts: they
//! follow from the roles.
#![forbid(unsafe_code)]

use half::bf16;
use isa::kernel;
use pipeline::prelude::*;

// example: types
names! { Raw = "raw", Ready = "ready" }
roles! {
    Load = 1 x 40 registers,
    Transform = 1 x 168 registers,
    Store = 1 x 168 registers,
}

/// 64 rows of 64 elements.
pub type Panel = Tile<bf16, 64, 64>;
type Alone = Cluster<1, 1>;
type Plan = SmemPlan<(
    Ring<4, (Panel,), Tma, Reads<Transform>, Raw, Alone>,
    Ring<2, (Panel,), Writes<Transform>, Reads<Store>, Ready, Alone>,
    StoreBuffers<bf16, 2, Store>,
)>;
type ThisCta = Cta<(Load, Transform, Store), Alone, Plan>;
// end

/// max(x, 0)², the squared ReLU of some transformers' MLPs. It is cheap, and a test would notice if it were left out.
#[isa::forceinline]
fn squared_relu(x: f32) -> f32 {
    let x = x.max(0.0);
    x * x
}

/// `to = squared_relu(from)` for `panels` panels of 64 x 64. CTA i of g takes panels i, i + g, ….
#[kernel]
pub fn two_rings(cta: ThisCta, from: &TensorMap<Panel>, to: &TensorMap<Panel>, panels: u32) {
    let (cta, (raw, ready, stores)) = cta.init();
    let coord = cta.coord();
    let rows = || (coord.cluster_id()..panels).step_by(coord.clusters() as usize).map(|p| 64 * p);

    cta.specialize(
        |load| {
            load.elect(|one| {
                let mut loads = raw.producer.by(&one);
                for row in rows() {
                    loads.acquire().load((from.tile(row, 0, Peers::ALONE),));
                }
                loads.tail();
            });
        },
        // example: transform
        |transform| {
            let mut arrived = raw.consumer.by(&transform);
            let mut passed_on = ready.producer.by(&transform);
            for _ in rows() {
                let panel = arrived.wait();
                let mut out = passed_on.acquire();
                for fragment in 0..4 {
                    out.put(fragment, panel.fragment(&transform, fragment).map(squared_relu));
                }
                panel.release();
                out.commit();
            }
            passed_on.tail();
        },
        // end
        |store| {
            let mut arrived = ready.consumer.by(&store);
            let mut stores = stores.by(&store);
            for row in rows() {
                let panel = arrived.wait();
                let mut out = stores.acquire();
                for fragment in 0..4 {
                    out.put(fragment, panel.fragment(&store, fragment));
                }
                panel.release();
                out.publish().store(to, row, 0);
            }
            stores.tail();
        },
    );
}
