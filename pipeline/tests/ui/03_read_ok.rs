//! A slot is read between its wait and its release.
use crate::support::*;
use super::copies;

#[test]
fn wait_read_release() {
    copies(|cta: ThisCta, from, to| {
        let (cta, (ring, stores)) = cta.init();
        cta.specialize(
            |load| one_thread(load, |one| load_panels(ring.producer, &one, from)),
            |group| {
                let (mut arrived, mut stores) = (ring.consumer.by(&group), stores.by(&group));
                for panel in 0..PANELS {
                    let slot = arrived.wait();
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
