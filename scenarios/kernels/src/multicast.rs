//! A TMA producer and a wgmma consumer with one batch in flight, in clusters. A is multicast along N, B
//! along M. (CUTLASS `pipeline_tma_async`.)

use crate::multiply::{Buffer, TileA, TileB, TileD, multiply, write};
use isa::kernel;
use pipeline::cta::{AlongM, AlongN};
use pipeline::prelude::*;

names! { Operands = "operands" }
roles! { Load = 1 x 40 registers, Math = 1 x 232 registers }

type Plan<const STAGES: usize, K> =
    SmemPlan<(Ring<STAGES, (TileA, TileB), Tma, Mma<Math>, Operands, K>, Buffer<Math>)>;
type ThisCta<const STAGES: usize, K> = Cta<(Load, Math), K, Plan<STAGES, K>>;

/// Computes `tiles` cluster tiles along M with `steps` k tiles each. Cluster i of g computes tiles i,
/// i + g, ….
#[inline(always)]
fn multicast<const STAGES: usize, const CM: usize, const CN: usize>(
    cta: ThisCta<STAGES, Cluster<CM, CN>>,
    a: &TensorMap<TileA, AlongN<CN>>,
    b: &TensorMap<TileB, AlongM<CM>>,
    d: &TensorMap<TileD>,
    tiles: u32,
    steps: u32,
) {
    let (cta, (ring, stores)) = cta.init();
    let coord = cta.coord();
    let col = 32 * coord.n();
    let rows = || {
        (coord.cluster_id()..tiles)
            .step_by(coord.clusters() as usize)
            .map(|tile| 64 * (tile * CM as u32 + coord.m()))
    };
    cta.specialize(
        |load| {
            load.elect(|one| {
                let (share_a, share_b) = (coord.sharing_a(), coord.sharing_b());
                let mut loads = ring.producer.by(&one);
                for row in rows() {
                    for k in 0..steps {
                        loads
                            .acquire()
                            .load((a.tile(row, 64 * k, share_a), b.tile(col, 64 * k, share_b)));
                    }
                }
                loads.tail();
            });
        },
        |group| {
            let mut operands = ring.consumer.by(&group);
            let mut stores = stores.by(&group);
            if steps > 0 {
                for row in rows() {
                    let sum = multiply(&group, &mut operands, steps);
                    write(&sum, &mut stores, d, row, col);
                }
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
    /// CTAs of its cluster along M.
    pub cm: u32,
    /// CTAs of its cluster along N.
    pub cn: u32,
}

macro_rules! instances {
    ($($name:ident: $stages:literal stages, $cm:literal x $cn:literal;)+) => {
        $(
            /// An instance of the table in this file.
            #[kernel]
            pub fn $name(
                cta: ThisCta<$stages, Cluster<$cm, $cn>>,
                a: &TensorMap<TileA, AlongN<$cn>>,
                b: &TensorMap<TileB, AlongM<$cm>>,
                d: &TensorMap<TileD>,
                tiles: u32,
                steps: u32,
            ) {
                multicast::<$stages, $cm, $cn>(cta, a, b, d, tiles, steps);
            }
        )+

        /// Every instance.
        #[cfg(not(target_arch = "nvptx64"))]
        pub const INSTANCES: &[Instance] = &[$(Instance {
            desc: &<$name as kernel::Kernel>::DESC, stages: $stages, cm: $cm, cn: $cn,
        }),+];
    };
}

instances! {
    multicast_1_1x1: 1 stages, 1 x 1;
    multicast_2_1x1: 2 stages, 1 x 1;
    multicast_3_1x1: 3 stages, 1 x 1;
    multicast_4_1x1: 4 stages, 1 x 1;
    multicast_5_1x1: 5 stages, 1 x 1;
    multicast_6_1x1: 6 stages, 1 x 1;
    multicast_7_1x1: 7 stages, 1 x 1;
    multicast_8_1x1: 8 stages, 1 x 1;
    multicast_9_1x1: 9 stages, 1 x 1;
    multicast_10_1x1: 10 stages, 1 x 1;
    multicast_11_1x1: 11 stages, 1 x 1;
    multicast_3_1x2: 3 stages, 1 x 2;
    multicast_2_2x1: 2 stages, 2 x 1;
    multicast_11_2x1: 11 stages, 2 x 1;
    multicast_1_2x2: 1 stages, 2 x 2;
    multicast_4_2x2: 4 stages, 2 x 2;
    multicast_5_1x4: 5 stages, 1 x 4;
    multicast_3_4x1: 3 stages, 4 x 1;
    multicast_3_2x4: 3 stages, 2 x 4;
    multicast_2_4x2: 2 stages, 4 x 2;
    multicast_3_4x4: 3 stages, 4 x 4;
}
