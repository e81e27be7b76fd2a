//! Threads write both operands, and wgmma multiplies them.
use crate::support::*;
use crate::common::{Image, run};
use sim::GlobalMemory;

type Written = Ring<2, Operands, Writes<Load>, Mma<Work>, Main, Alone>;

/// D = A · Aᵀ for one panel A, twice.
#[test]
fn written_operands_are_multiplied() {
    let memory = GlobalMemory::new();
    let a = Image::new(&memory, 64, 64, |i| (i % 7) as f32 - 3.0);
    let d = Image::new(&memory, 64, 64, |_| f32::NAN);
    let d_map = d.map::<Panel, _>();
    run(1, &memory, |cta: ThisCta<SmemPlan<(Written, Buffers)>>| {
        let (cta, (ring, stores)) = cta.init();
        cta.specialize(
            |group| {
                let mut slots = ring.producer.by(&group);
                let mut slot = slots.acquire();
                for i in 0..4 {
                    let values = core::array::from_fn(|j| {
                        let (row, column) = group.place(j);
                        let at = 64 * row + 16 * i + column;
                        a.slice().get(at as usize).map_or(f32::NAN, bf16::to_f32)
                    });
                    slot.put_to::<0>(i as usize, values);
                    slot.put_to::<1>(i as usize, values);
                }
                slot.commit();
                slots.tail();
            },
            |group| {
                let mut operands = ring.consumer.by(&group);
                let mut stores = stores.by(&group);
                let (sum, slot) = Accumulator::<64>::start(&group, operands.wait()).finish();
                slot.release();
                let mut out = stores.acquire();
                for fragment in 0..4 {
                    out.put(fragment, sum.fragment(fragment));
                }
                out.publish().store(&d_map, 0, 0);
                stores.tail();
            },
        );
    })
    .unwrap_or_else(|report| panic!("{report}"));
    let (a, d) = (a.read(), d.read());
    for (i, d) in d.iter().enumerate() {
        let sum: f32 = (0..64).map(|k| a[i / 64 * 64 + k] * a[i % 64 * 64 + k]).sum();
        assert_eq!(bf16::from_f32(*d), bf16::from_f32(sum), "element {i}");
    }
}
