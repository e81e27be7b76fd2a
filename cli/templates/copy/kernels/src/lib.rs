//! The kernel y = factor · x: TMA load, registers, TMA store.
//!
//! cargo compiles this crate twice: for the GPU, and for the host, where the SM model runs it.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]
#![forbid(unsafe_code)]

use warpipe::prelude::*;

// A name of the ring, for reports; and the warp groups of a CTA, with their registers per thread.
names! { Panels = "panels" }
roles! { Load = 1 x 40 registers, Work = 1 x 232 registers }

/// 64 rows of 64 elements, which one TMA instruction moves.
pub type Panel = Tile<bf16, 64, 64>;
type Alone = Cluster<1, 1>;
/// Shared memory: a ring of eight panels, and two buffers for stores.
type Plan = SmemPlan<(
    Ring<8, (Panel,), Tma, Reads<Work>, Panels, Alone>,
    StoreBuffers<bf16, 2, Work>,
)>;
type ThisCta = Cta<(Load, Work), Alone, Plan>;

/// y = factor · x, in `panels` panels, `across` of them side by side. CTA i of g takes panels i, i + g, ….
///
/// Sides that are not multiples of 64 are fine: beyond the edge, TMA loads zeros and stores nothing.
#[kernel]
pub fn scale(
    cta: ThisCta,
    x: &TensorMap<Panel>,
    y: &TensorMap<Panel>,
    panels: u32,
    across: u32,
    factor: f32,
) {
    let (cta, (ring, stores)) = cta.init();
    let coord = cta.coord();
    // Row and column of this CTA's panels. Both roles go through them in the same order.
    let panels = || {
        (coord.cluster_id()..panels)
            .step_by(coord.clusters() as usize)
            .map(|panel| (64 * (panel / across), 64 * (panel % across)))
    };

    cta.specialize(
        |load| {
            // One thread loads, and is up to eight panels ahead.
            load.elect(|one| {
                let mut loads = ring.producer.by(&one);
                for (row, col) in panels() {
                    loads.acquire().load((x.tile(row, col, Peers::ALONE),));
                }
                loads.tail();
            });
        },
        |group| {
            let (mut arrived, mut stores) = (ring.consumer.by(&group), stores.by(&group));
            for (row, col) in panels() {
                let panel = arrived.wait();
                let mut out = stores.acquire();
                // A fragment is 64 rows x 16 columns: eight values per thread.
                for fragment in 0..4 {
                    let x = panel.fragment(&group, fragment);
                    out.put(fragment, x.map(|x| factor * x));
                }
                panel.release();
                out.publish().store(y, row, col);
            }
            stores.tail();
        },
    );
}
