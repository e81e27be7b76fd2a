//! Operands that threads convert: TMA loads f32, a warp group rounds it to bf16 and stores it as wgmma reads it, and
//! another one multiplies. (CUTLASS `PipelineAsync` between a converting and a multiplying warp group.)

use crate::multiply::{TileA, multiply};
use half::bf16;
use isa::kernel;
use pipeline::prelude::*;

names! { Loaded = "loaded", Converted = "converted" }
roles! {
    Load = 1 x 40 registers,
    Convert = 1 x 168 registers,
    Multiply = 1 x 168 registers,
}

/// 64 rows of 32 elements: half of an operand of a k tile, as it is loaded, and half of D.
pub type Half = Tile<f32, 64, 32>;
/// B of a k tile, as wgmma reads it; A has the same shape.
type TileB = Tile<bf16, 64, 64>;
type Alone = Cluster<1, 1>;
type Plan<const STAGES: usize> = SmemPlan<(
    // The left and the right half of A, and then those of B.
    Ring<2, [Half; 4], Tma, Reads<Convert>, Loaded, Alone>,
    Ring<STAGES, (TileA, TileB), Writes<Convert>, Mma<Multiply>, Converted, Alone>,
    StoreBuffers<f32, 1, Multiply>,
)>;
type ThisCta<const STAGES: usize> = Cta<(Load, Convert, Multiply), Alone, Plan<STAGES>>;

/// D = A·Bᵀ of 64 x 64 elements in `steps` k tiles of 64, at least one, after rounding A and B to bf16.
#[inline(always)]
fn converted<const STAGES: usize>(
    cta: ThisCta<STAGES>,
    a: &TensorMap<Half>,
    b: &TensorMap<Half>,
    d: &TensorMap<Half>,
    steps: u32,
) {
    let (cta, (loaded, operands, stores)) = cta.init();
    cta.specialize(
        |load| {
            load.elect(|one| {
                let mut loads = loaded.producer.by(&one);
                for k in 0..steps {
                    let (left, right) = (64 * k, 64 * k + 32);
                    loads.acquire().load([
                        a.tile(0, left, Peers::ALONE),
                        a.tile(0, right, Peers::ALONE),
                        b.tile(0, left, Peers::ALONE),
                        b.tile(0, right, Peers::ALONE),
                    ]);
                }
                loads.tail();
            });
        },
        |group| {
            let mut loaded = loaded.consumer.by(&group);
            let mut slots = operands.producer.by(&group);
            for _ in 0..steps {
                let from = loaded.wait();
                let mut to = slots.acquire();
                for half in 0..2 {
                    for i in 0..2 {
                        to.put_to::<0>(2 * half + i, from.fragment(&group, half, i));
                        to.put_to::<1>(2 * half + i, from.fragment(&group, 2 + half, i));
                    }
                }
                from.release();
                to.commit();
            }
            slots.tail();
        },
        |group| {
            let mut operands = operands.consumer.by(&group);
            let mut stores = stores.by(&group);
            let sum = multiply(&group, &mut operands, steps);
            for half in 0..2 {
                let mut out = stores.acquire();
                for i in 0..2 {
                    out.put(i, sum.fragment(2 * half + i));
                }
                out.publish().store(d, 0, 32 * half as u32);
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
    /// Stages of the ring that threads fill.
    pub stages: u32,
}

macro_rules! instances {
    ($($name:ident: $stages:literal stages;)+) => {
        $(
            /// An instance of the table in this file.
            #[kernel]
            pub fn $name(
                cta: ThisCta<$stages>,
                a: &TensorMap<Half>,
                b: &TensorMap<Half>,
                d: &TensorMap<Half>,
                steps: u32,
            ) {
                converted::<$stages>(cta, a, b, d, steps);
            }
        )+

        /// Every instance.
        #[cfg(not(target_arch = "nvptx64"))]
        pub const INSTANCES: &[Instance] =
            &[$(Instance { desc: &<$name as kernel::Kernel>::DESC, stages: $stages }),+];
    };
}

instances! {
    converted_1: 1 stages;
    converted_2: 2 stages;
    converted_4: 4 stages;
}
