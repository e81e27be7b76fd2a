//! Warp groups that share the slots out say so in the ring, and may skip.
use crate::support::*;
use crate::common::{Image, run};
use sim::GlobalMemory;

type InTurn = Ring<2, Operands, Tma, MmaInTurn<Pair>, Main, Alone>;
type PairPlan = SmemPlan<(InTurn, StoreBuffers<bf16, 2, Pair>)>;

/// Group 0 squares the even panels, group 1 the odd ones.
#[test]
fn each_group_skips_what_the_other_reads() {
    let memory = GlobalMemory::new();
    let rows = 64 * PANELS as usize;
    let a = Image::new(&memory, rows, 64, |i| (i % 7) as f32 - 3.0);
    let d = Image::new(&memory, rows, 64, |_| f32::NAN);
    let (a_map, d_map) = (a.map::<Panel, _>(), d.map::<Panel, _>());
    run(1, &memory, |cta: Cta<(Load, Pair), Alone, PairPlan>| {
        let (cta, (ring, stores)) = cta.init();
        cta.specialize(
            |load| {
                one_thread(load, |one| {
                    let mut loads = ring.producer.by(&one);
                    for panel in 0..PANELS {
                        let tile = || a_map.tile(64 * panel, 0, Peers::ALONE);
                        loads.acquire().load((tile(), tile()));
                    }
                    loads.tail();
                });
            },
            |group| {
                let (mut operands, mut stores) = (ring.consumer.by(&group), stores.by(&group));
                for panel in 0..PANELS {
                    if panel % 2 != group.index() {
                        operands.skip(1);
                        continue;
                    }
                    let (sum, slot) =
                        Accumulator::<64>::start(&group, operands.wait()).finish();
                    slot.release();
                    let mut out = stores.acquire();
                    for fragment in 0..4 {
                        out.put(fragment, sum.fragment(fragment));
                    }
                    out.publish().store(&d_map, 64 * panel, 0);
                }
                stores.tail();
            },
        );
    })
    .unwrap_or_else(|report| panic!("{report}"));
    let (a, d) = (a.read(), d.read());
    for (i, d) in d.iter().enumerate() {
        let (row, col) = (i / 64, i / 64 / 64 * 64 + i % 64);
        let sum: f32 = (0..64).map(|k| a[64 * row + k] * a[64 * col + k]).sum();
        assert_eq!(bf16::from_f32(*d), bf16::from_f32(sum), "element {i}");
    }
}
