//! Weights in registers: each batch owns its own, and the next ones are packed anew.
use crate::support::*;
use crate::common::{Image, run};
use sim::GlobalMemory;
use warpipe_pipeline::tile::MnMajor;

type ValueTile = Tile<bf16, 64, 64, MnMajor>;
type AttentionPlan = SmemPlan<(
    MmaRing,
    Ring<1, (ValueTile,), Tma, Mma<Work>, Other, Alone>,
    Buffers,
)>;

/// D = 2 (A·Aᵀ)·A.
#[test]
fn each_batch_owns_its_fragment() {
    for seed in 0..4 {
        let memory = GlobalMemory::new();
        let a = Image::new(&memory, 64, 64, |i| (i % 5) as f32 - 2.0);
        let d = Image::new(&memory, 64, 64, |_| f32::NAN);
        let (rows, values) = (a.map::<Panel, _>(), a.map::<ValueTile, _>());
        let out = d.map::<Panel, _>();
        run(seed, &memory, |cta: ThisCta<AttentionPlan>| {
            let (cta, (operands, columns, stores)) = cta.init();
            cta.specialize(
                |load| {
                    one_thread(load, |one| {
                        let (mut operands, mut columns) =
                            (operands.producer.by(&one), columns.producer.by(&one));
                        let tile = || rows.tile(0, 0, Peers::ALONE);
                        operands.acquire().load((tile(), tile()));
                        columns.acquire().load((values.tile(0, 0, Peers::ALONE),));
                        operands.tail();
                        columns.tail();
                    });
                },
                |group| {
                    let (mut operands, mut columns) =
                        (operands.consumer.by(&group), columns.consumer.by(&group));
                    let (scores, slot) =
                        Accumulator::<64>::start(&group, operands.wait()).finish();
                    slot.release();
                    let first = (scores.to_a::<bf16>(), columns.wait());
                    let (sum, values) = Accumulator::<64>::start(&group, first).finish();
                    let second = (scores.to_a::<bf16>(), values.keep());
                    let (sum, values) = sum.add(&group, second).finish();
                    values.release();
                    let mut stores = stores.by(&group);
                    let mut buffer = stores.acquire();
                    for fragment in 0..4 {
                        buffer.put(fragment, sum.fragment(fragment));
                    }
                    buffer.publish().store(&out, 0, 0);
                    stores.tail();
                },
            );
        })
        .unwrap_or_else(|report| panic!("seed {seed}:\n{report}"));
        let (a, d) = (a.read(), d.read());
        // A·Aᵀ has integers up to 256, which bf16 has.
        let square = |row: usize, col: usize| -> f32 {
            (0..64).map(|k| a[64 * row + k] * a[64 * col + k]).sum()
        };
        for (i, d) in d.iter().enumerate() {
            let sum: f32 = (0..64).map(|k| 2.0 * square(i / 64, k) * a[64 * k + i % 64]).sum();
            assert_eq!(bf16::from_f32(*d), bf16::from_f32(sum), "seed {seed}, element {i}");
        }
    }
}
