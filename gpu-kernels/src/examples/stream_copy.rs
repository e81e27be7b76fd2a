//! A stream copy through one ring: TMA load, registers, TMA store.
//!
//! This is the smallest complete pipeline. One thread of `Load` runs up to four panels ahead. The warp group of `Copy`
//! reads each panel into registers, where a real kernel would compute, and releases the slot. It stores through two
//! buffers, so that TMA writes one while the warp group fills the other.
#![forbid(unsafe_code)]

use half::bf16;
use isa::kernel;
use pipeline::prelude::*;

names! { Panels64 = "panels" }
roles! { Load = 1 x 40 registers, Copy = 1 x 232 registers }

/// 64 rows of 64 elements.
pub type Panel = Tile<bf16, 64, 64>;
type Alone = Cluster<1, 1>;
type Plan =
    SmemPlan<(Ring<4, (Panel,), Tma, Reads<Copy>, Panels64, Alone>, StoreBuffers<bf16, 2, Copy>)>;
type ThisCta = Cta<(Load, Copy), Alone, Plan>;

/// Copies a tensor of 64 columns in `panels` panels of 64 rows. CTA i of g takes panels i, i + g, ….
#[kernel]
pub fn stream_copy(cta: ThisCta, from: &TensorMap<Panel>, to: &TensorMap<Panel>, panels: u32) {
    let (cta, (ring, stores)) = cta.init();
    let coord = cta.coord();
    let rows = || (coord.cluster_id()..panels).step_by(coord.clusters() as usize).map(|p| 64 * p);

    cta.specialize(
        |load| {
            load.elect(|one| {
                let mut loads = ring.producer.by(&one);
                for row in rows() {
                    loads.acquire().load((from.tile(row, 0, Peers::ALONE),));
                }
                loads.tail();
            });
        },
        |group| {
            let mut arrived = ring.consumer.by(&group);
            let mut stores = stores.by(&group);
            for row in rows() {
                let panel = arrived.wait();
                let mut out = stores.acquire();
                for fragment in 0..4 {
                    out.put(fragment, panel.fragment(&group, fragment));
                }
                panel.release();
                out.publish().store(to, row, 0);
            }
            stores.tail();
        },
    );
}
