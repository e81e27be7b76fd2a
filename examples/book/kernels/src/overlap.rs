//! to = scale · from + bias, in a grid that starts before the one ahead has ended.

use warpipe::isa::kernel::KernelArg;
use warpipe::kernel;
use warpipe::pipeline::grid::DependentSlice;
use warpipe::pipeline::prelude::*;

names! { Rows = "rows" }
roles! { Load = 1 x 40 registers, Math = 1 x 232 registers }

/// 64 rows of 64 elements.
pub type Panel = Tile<bf16, 64, 64>;
type Alone = Cluster<1, 1>;
type Plan =
    SmemPlan<(Ring<4, (Panel,), Tma, Reads<Math>, Rows, Alone>, StoreBuffers<bf16, 2, Math>)>;
type ThisCta = Cta<(Load, Math), Alone, Plan>;

// example: struct
/// Factor, and what is added to each panel.
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct Bias<'a> {
    /// Factor of each element.
    pub scale: f32,
    /// One value for each panel.
    pub values: DependentSlice<'a, f32>,
}
// end

/// to = scale · from + bias in `panels` panels of 64 rows, by one CTA.
// example: signature
#[kernel(dependent = true)]
pub fn biased(
    cta: ThisCta,
    from: &TensorMap<Panel>,
    to: &TensorMap<Panel>,
    bias: Bias,
    panels: u32,
) {
    // end
    // example: prologue
    let (early, (ring, stores)) = cta.prologue();
    early.specialize(
        |load| {
            load.elect(|early| {
                from.tile(0, 0, Peers::ALONE).prefetch(&early);
                let one = early.wait();
                let mut loads = ring.producer.by(&one);
                // end
                for panel in 0..panels {
                    loads.acquire().load((from.tile(64 * panel, 0, Peers::ALONE),));
                }
                // example: launch dependents
                one.launch_dependents();
                loads.tail();
                // end
            });
        },
        |group| {
            // example: by
            let group = group.wait();
            let values = bias.values.by(&group);
            // end
            let (mut arrived, mut stores) = (ring.consumer.by(&group), stores.by(&group));
            for panel in 0..panels {
                let added = values.get(panel as usize).unwrap_or(0.0);
                let slot = arrived.wait();
                let mut out = stores.acquire();
                for fragment in 0..4 {
                    let values = slot.fragment(&group, fragment);
                    out.put(fragment, values.map(|x| bias.scale * x + added));
                }
                slot.release();
                out.publish().store(to, 64 * panel, 0);
            }
            stores.tail();
        },
    );
}
