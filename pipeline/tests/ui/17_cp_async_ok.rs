//! What `cp.async` fills is read with ordinary loads, through the same proxy.
use crate::common::{Image, run};
use crate::support::*;
use sim::GlobalMemory;

type CopiedPanels =
    SmemPlan<(Ring<2, (Panel,), CpAsync<Load>, Reads<Work>, Main, Alone>, Buffers)>;

#[test]
fn copy_commit_wait() {
    for seed in 0..4 {
        let memory = GlobalMemory::new();
        let rows = 64 * PANELS;
        let from = Image::new(&memory, rows as usize, 64, |i| (i % 251) as f32);
        let to = Image::new(&memory, rows as usize, 64, |_| f32::NAN);
        let target = to.map();
        run(seed, &memory, |cta: ThisCta<CopiedPanels>| {
            let view = MatrixView::new(from.slice(), rows, 64, 64);
            let (cta, (ring, stores)) = cta.init();
            cta.specialize(
                |group| {
                    let mut slots = ring.producer.by(&group);
                    for panel in 0..PANELS {
                        let copying = slots.acquire().copy((view.tile(64 * panel, 0),));
                        copying.commit();
                    }
                    slots.tail();
                },
                |group| {
                    let (mut arrived, mut stores) = (ring.consumer.by(&group), stores.by(&group));
                    for panel in 0..PANELS {
                        let slot = arrived.wait();
                        let mut out = stores.acquire();
                        for fragment in 0..4 {
                            out.put(fragment, slot.fragment(&group, fragment));
                        }
                        slot.release();
                        out.publish().store(&target, 64 * panel, 0);
                    }
                    stores.tail();
                },
            );
        })
        .unwrap_or_else(|report| panic!("seed {seed}:\n{report}"));
        assert_eq!(from.read(), to.read(), "seed {seed}");
    }
}
