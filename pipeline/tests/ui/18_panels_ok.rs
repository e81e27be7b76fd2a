//! A panel at a time: the next one comes from `acquire`, whose wait covers its last store. A panel that is dropped instead of stored is given out again.
use crate::support::*;
use super::copies;

#[test]
fn one_panel_at_a_time() {
    copies(|cta: ThisCta, from, to| {
        let (cta, (ring, stores)) = cta.init();
        cta.specialize(
            |load| one_thread(load, |one| load_panels(ring.producer, &one, from)),
            |group| {
                let (mut arrived, mut stores) = (ring.consumer.by(&group), stores.by(&group));
                for panel in 0..PANELS {
                    let slot = arrived.wait();
                    let mut wrong = stores.acquire();
                    wrong.put(0, [f32::NAN; 8]);
                    drop(wrong);
                    let mut out = stores.acquire();
                    for fragment in 0..4 {
                        out.put(fragment, slot.fragment(&group, fragment));
                    }
                    slot.release();
                    out.publish().store(to, 64 * panel, 0);
                }
                stores.tail();
            },
        );
    });
}
