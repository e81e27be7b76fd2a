//! Two rings in one kernel: each slot goes back to the ring it came from.
use crate::support::*;
use super::copies;

type TwoRings = SmemPlan<(PanelRing<Main>, PanelRing<Other, 3>, Buffers)>;

#[test]
fn panels_alternate_between_the_rings() {
    copies(|cta: ThisCta<TwoRings>, from, to| {
        let (cta, (even, odd, stores)) = cta.init();
        cta.specialize(
            |load| {
                one_thread(load, |one| {
                    let (mut even, mut odd) = (even.producer.by(&one), odd.producer.by(&one));
                    for pair in 0..PANELS / 2 {
                        even.acquire().load((from.tile(128 * pair, 0, Peers::ALONE),));
                        odd.acquire().load((from.tile(128 * pair + 64, 0, Peers::ALONE),));
                    }
                    even.tail();
                    odd.tail();
                });
            },
            |group| {
                let (mut even, mut odd) = (even.consumer.by(&group), odd.consumer.by(&group));
                let mut stores = stores.by(&group);
                for pair in 0..PANELS / 2 {
                    let (a, b) = (even.wait(), odd.wait());
                    let mut out = stores.acquire();
                    for fragment in 0..4 {
                        out.put(fragment, a.fragment(&group, fragment));
                    }
                    out.publish().store(to, 128 * pair, 0);
                    let mut out = stores.acquire();
                    for fragment in 0..4 {
                        out.put(fragment, b.fragment(&group, fragment));
                    }
                    out.publish().store(to, 128 * pair + 64, 0);
                    a.release();
                    b.release();
                }
                stores.tail();
            },
        );
    });
}
