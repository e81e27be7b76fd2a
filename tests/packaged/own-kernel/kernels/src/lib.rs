//! A kernel that copies a tensor of 64 columns through a ring.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]

use warpipe::half::bf16;
use warpipe::kernel;
use warpipe::pipeline::prelude::*;

names! { Panels64 = "panels" }
roles! { Load = 1 x 40 registers, Copy = 1 x 232 registers }

/// 64 rows of 64 elements.
pub type Panel = Tile<bf16, 64, 64>;
type Alone = Cluster<1, 1>;
type Plan =
    SmemPlan<(Ring<4, (Panel,), Tma, Reads<Copy>, Panels64, Alone>, StoreBuffers<bf16, 2, Copy>)>;
/// The kernel's CTA.
pub type ThisCta = Cta<(Load, Copy), Alone, Plan>;

/// Copies `panels` panels of 64 rows.
#[kernel]
pub fn own_copy(cta: ThisCta, from: &TensorMap<Panel>, to: &TensorMap<Panel>, panels: u32) {
    let (cta, (ring, stores)) = cta.init();
    cta.specialize(
        |load| {
            load.elect(|one| {
                let mut loads = ring.producer.by(&one);
                for panel in 0..panels {
                    loads.acquire().load((from.tile(64 * panel, 0, Peers::ALONE),));
                }
                loads.tail();
            });
        },
        |group| {
            let (mut arrived, mut stores) = (ring.consumer.by(&group), stores.by(&group));
            for panel in 0..panels {
                let slot = arrived.wait();
                let mut out = stores.acquire();
                for fragment in 0..4 {
                    out.put(fragment, slot.fragment(&group, fragment));
                }
                slot.release();
                out.publish().store(to, 64 * panel, 0);
            }
            stores.tail();
        },
    );
}
