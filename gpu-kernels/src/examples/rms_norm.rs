//! RMSNorm of rows: y = x / sqrt(mean(x²) + eps) · w, for rows of up to 512 elements.
//!
//! A stage is a block of 64 whole rows: eight panels side by side, whose loads complete on one mbarrier. The loading
//! thread is a block or two ahead, so the arithmetic hides the latency of global memory. A row lies in the registers of
//! four lanes. Each lane sums its own part, and `row_sum` adds the four parts. The warp group reads the block twice,
//! once to sum and once to scale, and then releases it.
#![forbid(unsafe_code)]

use half::bf16;
use isa::kernel;
use isa::slice::DeviceSlice;
use pipeline::mma::{RowParts, row_of};
use pipeline::prelude::*;

names! { Blocks = "blocks" }
roles! { Load = 1 x 40 registers, Norm = 1 x 232 registers }

/// 64 rows of 64 elements.
pub type Panel = Tile<bf16, 64, 64>;
/// Panels of a block.
pub const PANELS: usize = 8;
type Alone = Cluster<1, 1>;
type Plan = SmemPlan<(
    Ring<3, [Panel; PANELS], Tma, Reads<Norm>, Blocks, Alone>,
    StoreBuffers<bf16, 2, Norm>,
)>;
type ThisCta = Cta<(Load, Norm), Alone, Plan>;

/// Normalises `blocks` blocks of 64 rows of `cols` elements. CTA i of g takes blocks i, i + g, ….
#[kernel]
pub fn rms_norm(
    cta: ThisCta,
    x: &TensorMap<Panel>,
    weight: DeviceSlice<f32>,
    y: &TensorMap<Panel>,
    blocks: u32,
    cols: u32,
    eps: f32,
) {
    let (cta, (ring, stores)) = cta.init();
    let coord = cta.coord();
    let rows = || (coord.cluster_id()..blocks).step_by(coord.clusters() as usize).map(|b| 64 * b);

    cta.specialize(
        |load| {
            load.elect(|one| {
                let mut loads = ring.producer.by(&one);
                for row in rows() {
                    // TMA loads zeros for columns beyond the tensor. They add nothing to a sum.
                    loads.acquire().load::<[_; PANELS]>(core::array::from_fn(|panel| {
                        x.tile(row, 64 * panel as u32, Peers::ALONE)
                    }));
                }
                loads.tail();
            });
        },
        |group| {
            let mut arrived = ring.consumer.by(&group);
            let mut stores = stores.by(&group);
            for row in rows() {
                let block = arrived.wait();
                let mut squares = [0.0; 2];
                for panel in 0..PANELS {
                    for fragment in 0..4 {
                        let x = block.fragment(&group, panel, fragment);
                        for i in 0..8 {
                            squares[row_of(i)] += x[i] * x[i];
                        }
                    }
                }
                let scale = group
                    .row_sum(RowParts(squares))
                    .map(|sum| 1.0 / isa::math::sqrt(sum / cols as f32 + eps));

                for panel in 0..PANELS {
                    let mut out = stores.acquire();
                    for fragment in 0..4 {
                        let x = block.fragment(&group, panel, fragment);
                        out.put(
                            fragment,
                            core::array::from_fn(|i| {
                                let col = 64 * panel + 16 * fragment + group.place(i).1 as usize;
                                x[i] * scale.0[row_of(i)] * weight.get(col).unwrap_or(0.0)
                            }),
                        );
                    }
                    out.publish().store(y, row, 64 * panel as u32);
                }
                block.release();
            }
            stores.tail();
        },
    );
}
