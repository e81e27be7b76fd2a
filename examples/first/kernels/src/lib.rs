//! A first kernel: to = factor · from.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]
#![forbid(unsafe_code)]

use warpipe::kernel;
use warpipe::pipeline::prelude::*;

// example: types
names! { Panels = "panels" }
roles! { Load = 1 x 40 registers, Scale = 1 x 232 registers }

/// 64 rows of 64 elements.
pub type Panel = Tile<bf16, 64, 64>;
type Alone = Cluster<1, 1>;
type Plan =
    SmemPlan<(Ring<4, (Panel,), Tma, Reads<Scale>, Panels, Alone>, StoreBuffers<bf16, 2, Scale>)>;
type ThisCta = Cta<(Load, Scale), Alone, Plan>;
// end

// example: start
/// Scales a matrix of 64 columns, which has `panels` panels of 64 rows. CTA i of g takes panels i, i + g, ….
#[kernel]
pub fn scale(
    cta: ThisCta,
    from: &TensorMap<Panel>,
    to: &TensorMap<Panel>,
    panels: u32,
    factor: f32,
) {
    let (cta, (ring, stores)) = cta.init();
    let (first, ctas) = (cta.coord().cluster_id(), cta.coord().clusters());
    let rows = || (first..panels).step_by(ctas as usize).map(|panel| 64 * panel);
    // end

    cta.specialize(
        // example: load
        |load| {
            load.elect(|one| {
                let mut loads = ring.producer.by(&one);
                for row in rows() {
                    loads.acquire().load((from.tile(row, 0, Peers::ALONE),));
                }
                loads.tail();
            });
        },
        // end
        // example: scale
        |group| {
            let mut arrived = ring.consumer.by(&group);
            let mut stores = stores.by(&group);
            for row in rows() {
                let panel = arrived.wait();
                let mut out = stores.acquire();
                for fragment in 0..4 {
                    let values = panel.fragment(&group, fragment);
                    out.put(fragment, values.map(|x| factor * x));
                }
                panel.release();
                out.publish().store(to, row, 0);
            }
            stores.tail();
        },
        // end
    );
}
