//! A producer role fills each slot with `cp.async`; there is one consumer.
//! (CUTLASS `pipeline_async`, with `cp.async` in place of ordinary stores.)

use half::bf16;
use isa::kernel;
use isa::slice::DeviceSlice;
use pipeline::prelude::*;
use pipeline::ring::CpAsync;
use pipeline::tile::MatrixView;

names! { Copied = "copied" }
roles! { Fetch = 2 x 128 registers, Consume = 1 x 128 registers }

/// 64 rows of 64 elements. A slot has two of them side by side.
pub type Panel = Tile<bf16, 64, 64>;
type Alone = Cluster<1, 1>;
type Plan<const STAGES: usize> = SmemPlan<(
    Ring<STAGES, [Panel; 2], CpAsync<Fetch>, Reads<Consume>, Copied, Alone>,
    StoreBuffers<bf16, 2, Consume>,
)>;
type ThisCta<const STAGES: usize> = Cta<(Fetch, Consume), Alone, Plan<STAGES>>;

/// The matrix that is copied: rows, columns, and row pitch in elements.
#[derive(Clone, Copy, Debug)]
struct Extent {
    rows: u32,
    cols: u32,
    pitch: u32,
}

/// Copies `steps` blocks of 64 x 128, with zeros outside of `from`.
#[inline(always)]
fn copied<const STAGES: usize>(
    cta: ThisCta<STAGES>,
    from: DeviceSlice<bf16>,
    extent: Extent,
    to: &TensorMap<Panel>,
    steps: u32,
) {
    let from = MatrixView::new(from, extent.rows, extent.cols, extent.pitch);
    let (cta, (ring, stores)) = cta.init();
    cta.specialize(
        |group| {
            let mut slots = ring.producer.by(&group);
            for step in 0..steps {
                let left = from.tile(64 * step, 0);
                slots.acquire().copy([left, from.tile(64 * step, 64)]).commit();
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
                    out.publish().store(to, 64 * step, 64 * panel as u32);
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
                rows: u32,
                cols: u32,
                pitch: u32,
                to: &TensorMap<Panel>,
                steps: u32,
            ) {
                copied::<$stages>(cta, from, Extent { rows, cols, pitch }, to, steps);
            }
        )+

        /// Every instance.
        #[cfg(not(target_arch = "nvptx64"))]
        pub const INSTANCES: &[Instance] =
            &[$(Instance { desc: &<$name as kernel::Kernel>::DESC, stages: $stages }),+];
    };
}

instances! {
    copied_1: 1 stages;
    copied_2: 2 stages;
    copied_5: 5 stages;
}
