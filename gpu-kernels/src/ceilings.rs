//! Kernels that only multiply or only read, as fast as the chip can: ceilings for the GEMM.
#![forbid(unsafe_code)]

use half::bf16;
use isa::kernel;
use pipeline::prelude::*;

names! { Operands = "operands", Panels64 = "panels" }
roles! {
    Load = 1 x 40 registers,
    Math = 2 x 232 registers,
    Add = 1 x 232 registers,
}

type Alone = Cluster<1, 1>;

/// Rows of A that a CTA of [`wgmma_alone()`] multiplies.
pub const ROWS: usize = 128;
/// Rows of B: columns of the sums.
pub const COLUMNS: usize = 256;
/// Columns of A and B: one k tile.
pub const DEPTH: usize = 64;

type A = Tile<bf16, ROWS, DEPTH>;
type B = Tile<bf16, COLUMNS, DEPTH>;
type MultiplyingPlan =
    SmemPlan<(Ring<1, (A, B), Tma, Mma<Math>, Operands, Alone>, StoreBuffers<bf16, 2, Math>)>;
type MultiplyingCta = Cta<(Load, Math), Alone, MultiplyingPlan>;

/// Multiplies one slot again and again: D = `batches` · A·Bᵀ, with 128 rows of A for each CTA.
///
/// After the first slot, nothing waits for loads, and nothing is stored before the end. So the kernel runs at the rate
/// of the tensor cores.
#[kernel(dependent = true)]
pub fn wgmma_alone(
    cta: MultiplyingCta,
    a: &TensorMap<A>,
    b: &TensorMap<B>,
    d: &TensorMap<Tile<bf16, 64, 64>>,
    batches: u32,
) {
    cta.launch_dependents();
    let (cta, (ring, stores)) = cta.init();
    let row = cta.coord().cluster_id() * ROWS as u32;
    cta.specialize(
        |load| {
            load.elect(|one| {
                let mut loads = ring.producer.by(&one);
                loads.acquire().load((a.tile(row, 0, Peers::ALONE), b.tile(0, 0, Peers::ALONE)));
                loads.tail();
            });
        },
        |group| {
            let mut operands = ring.consumer.by(&group);
            let mut sum = Accumulator::<COLUMNS>::start(&group, operands.wait());
            for _ in 1..batches {
                sum.again();
            }
            let (sum, slot) = sum.finish();
            slot.release();
            let mut stores = stores.by(&group);
            for panel in 0..COLUMNS / 64 {
                let mut out = stores.acquire();
                for fragment in 0..4 {
                    out.put(fragment, sum.fragment(4 * panel + fragment));
                }
                out.publish().store(d, row + 64 * group.index(), 64 * panel as u32);
            }
            stores.tail();
        },
    );
}

/// The box of one load of [`tma_read_alone()`]: 64 rows of 64 elements, 8 KiB.
pub type Panel = Tile<bf16, 64, 64>;
/// Eight panels in flight, 64 KiB. With 24, reading 64 MiB took 4.6 % longer on an H200, and 1 GiB as long (2026-11-30).
type ReadingPlan =
    SmemPlan<(Ring<8, (Panel,), Tma, Reads<Add>, Panels64, Alone>, StoreBuffers<bf16, 1, Add>)>;
type ReadingCta = Cta<(Load, Add), Alone, ReadingPlan>;

/// Reads a tensor of 64 columns in `panels` panels of 64 rows. CTA i of g reads panels i, i + g, …, and stores their
/// sum.
///
/// Nothing is stored before the end, so the kernel runs at the rate of TMA loads. The sum lets a test check that each
/// panel was read.
#[kernel(dependent = true)]
pub fn tma_read_alone(
    cta: ReadingCta,
    from: &TensorMap<Panel>,
    sums: &TensorMap<Panel>,
    panels: u32,
) {
    cta.launch_dependents();
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
            let (mut arrived, mut stores) = (ring.consumer.by(&group), stores.by(&group));
            let mut sums_here = [[0.0; 8]; 4];
            for _ in rows() {
                let panel = arrived.wait();
                for (fragment, sum) in sums_here.iter_mut().enumerate() {
                    let values = panel.fragment(&group, fragment);
                    for i in 0..8 {
                        sum[i] += values[i];
                    }
                }
                panel.release();
            }
            let mut out = stores.acquire();
            for (fragment, sum) in sums_here.into_iter().enumerate() {
                out.put(fragment, sum);
            }
            out.publish().store(sums, 64 * coord.cluster_id(), 0);
            stores.tail();
        },
    );
}
