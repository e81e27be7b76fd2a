//! Two producer warp groups that fill each slot with ordinary stores, and one consumer.
//! (CUTLASS `pipeline_async` with two producers.)

use half::bf16;
use isa::kernel;
use isa::slice::DeviceSlice;
use pipeline::prelude::*;

names! { Halves = "halves" }
roles! { Produce = 2 x 128 registers, Consume = 1 x 128 registers }

/// 64 rows of 64 elements: the part of a slot that one producer group writes.
pub type Panel = Tile<bf16, 64, 64>;
type Alone = Cluster<1, 1>;
type Plan<const STAGES: usize> = SmemPlan<(
    Ring<STAGES, [Panel; 2], Writes<Produce>, Reads<Consume>, Halves, Alone>,
    StoreBuffers<bf16, 2, Consume>,
)>;
type ThisCta<const STAGES: usize> = Cta<(Produce, Consume), Alone, Plan<STAGES>>;

/// Copies `steps` blocks of 128 x 64. Group g adds g + 1 to the elements that it copies.
#[inline(always)]
fn two_writers<const STAGES: usize>(
    cta: ThisCta<STAGES>,
    from: DeviceSlice<bf16>,
    to: &TensorMap<Panel>,
    steps: u32,
) {
    let (cta, (ring, stores)) = cta.init();
    cta.specialize(
        |group| {
            let mut slots = ring.producer.by(&group);
            for step in 0..steps {
                let mut out = slots.acquire();
                let first = 128 * step + 64 * group.index();
                for fragment in 0..4 {
                    out.put(
                        fragment,
                        core::array::from_fn(|i| {
                            let (row, col) = group.place(i);
                            let at = (first + row) as usize * 64 + 16 * fragment + col as usize;
                            let x = from.get(at).map_or(0.0, bf16::to_f32);
                            x + (1 + group.index()) as f32
                        }),
                    );
                }
                out.commit();
            }
            slots.tail();
        },
        |group| {
            let mut arrived = ring.consumer.by(&group);
            let mut stores = stores.by(&group);
            for step in 0..steps {
                let slot = arrived.wait();
                for panel in 0..2 {
                    let mut out = stores.acquire();
                    for fragment in 0..4 {
                        out.put(fragment, slot.fragment(&group, panel, fragment));
                    }
                    out.publish().store(to, 128 * step + 64 * panel as u32, 0);
                }
                slot.release();
            }
            stores.tail();
        },
    );
}

/// One of the kernels below.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy)]
pub struct Instance {
    /// The kernel.
    pub desc: &'static isa::kernel::KernelDesc,
    /// Stages of its ring.
    pub stages: u32,
}

macro_rules! instances {
    ($($name:ident: $stages:literal stages;)+) => {
        $(
            /// An instance of the table in this file.
            #[kernel]
            pub fn $name(
                cta: ThisCta<$stages>,
                from: DeviceSlice<bf16>,
                to: &TensorMap<Panel>,
                steps: u32,
            ) {
                two_writers::<$stages>(cta, from, to, steps);
            }
        )+

        /// Every instance.
        #[cfg(not(target_arch = "nvptx64"))]
        pub const INSTANCES: &[Instance] =
            &[$(Instance { desc: &<$name as kernel::Kernel>::DESC, stages: $stages }),+];
    };
}

instances! {
    two_writers_1: 1 stages;
    two_writers_2: 2 stages;
    two_writers_3: 3 stages;
    two_writers_5: 5 stages;
    two_writers_11: 11 stages;
}
