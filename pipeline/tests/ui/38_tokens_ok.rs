//! Every token goes its way: loaded, released, published, stored.
use crate::support::*;
use super::copies;

#[test]
fn no_token_is_left() {
    copies(|cta: ThisCta, from, to| {
        let (cta, (ring, stores)) = cta.init();
        cta.specialize(
            |load| one_thread(load, |one| load_panels(ring.producer, &one, from)),
            |group| {
                let (mut arrived, mut stores) = (ring.consumer.by(&group), stores.by(&group));
                for panel in 0..PANELS {
                    let slot = arrived.try_wait().wait();
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
