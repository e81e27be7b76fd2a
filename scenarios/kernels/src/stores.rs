//! Two warp groups copy panels through 1 to 12 store buffers each, as fast as possible.
//! (CUTLASS `PipelineTmaStore<Stages, UnacquiredStages>`.)

use half::bf16;
use isa::kernel;
use pipeline::prelude::*;
use pipeline::store::ALL_BUT_ONE;

names! { Panels128 = "panels" }
roles! { Load = 1 x 40 registers, Store = 2 x 232 registers }

type Alone = Cluster<1, 1>;
/// Rows of both groups.
pub type Rows = Tile<bf16, 128, 64>;
/// Rows of one group.
pub type Panel = Tile<bf16, 64, 64>;
type Plan<const DEPTH: usize, const UNACQUIRED: usize> = SmemPlan<(
    Ring<2, (Rows,), Tma, Reads<Store>, Panels128, Alone>,
    StoreBuffers<bf16, DEPTH, Store, UNACQUIRED>,
)>;
type ThisCta<const DEPTH: usize, const UNACQUIRED: usize> =
    Cta<(Load, Store), Alone, Plan<DEPTH, UNACQUIRED>>;

/// Copies `panels` panels of 128 rows, 64 of them by each group.
#[inline(always)]
fn stored<const DEPTH: usize, const UNACQUIRED: usize>(
    cta: ThisCta<DEPTH, UNACQUIRED>,
    from: &TensorMap<Rows>,
    to: &TensorMap<Panel>,
    panels: u32,
) {
    let (cta, (ring, stores)) = cta.init();
    cta.specialize(
        |load| {
            load.elect(|one| {
                let mut loads = ring.producer.by(&one);
                for panel in 0..panels {
                    loads.acquire().load((from.tile(128 * panel, 0, Peers::ALONE),));
                }
                loads.tail();
            });
        },
        |group| {
            let mut arrived = ring.consumer.by(&group);
            let mut stores = stores.by(&group);
            for panel in 0..panels {
                let slot = arrived.wait();
                let mut out = stores.acquire();
                for fragment in 0..4 {
                    out.put(fragment, slot.fragment(&group, fragment));
                }
                slot.release();
                out.publish().store(to, 128 * panel + 64 * group.index(), 0);
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
    /// Buffers of each group.
    pub depth: u32,
}

macro_rules! instances {
    ($($name:ident: $depth:literal buffers, $unacquired:expr;)+) => {
        $(
            /// An instance of the table in this file.
            #[kernel]
            pub fn $name(
                cta: ThisCta<$depth, { $unacquired }>,
                from: &TensorMap<Rows>,
                to: &TensorMap<Panel>,
                panels: u32,
            ) {
                stored::<$depth, { $unacquired }>(cta, from, to, panels);
            }
        )+

        /// Every instance.
        #[cfg(not(target_arch = "nvptx64"))]
        pub const INSTANCES: &[Instance] = &[$(Instance {
            desc: &<$name as kernel::Kernel>::DESC, depth: $depth,
        }),+];
    };
}

instances! {
    stored_1: 1 buffers, ALL_BUT_ONE;
    stored_2: 2 buffers, ALL_BUT_ONE;
    stored_3: 3 buffers, ALL_BUT_ONE;
    stored_4: 4 buffers, ALL_BUT_ONE;
    stored_5: 5 buffers, ALL_BUT_ONE;
    stored_12: 12 buffers, ALL_BUT_ONE;
    stored_2_0: 2 buffers, 0;
    stored_4_1: 4 buffers, 1;
    stored_5_3: 5 buffers, 3;
}
