//! One end arrives, the other waits; both step, in one call or in two.
use crate::support::*;
use super::copies;

type OrderedPlan = SmemPlan<(PanelRing<Main, 1>, PanelRing<Other, 1>, Buffers, LoadOrderBarrier<Order>)>;

/// Even panels through one ring, odd ones through the other, each odd one loaded after the even
/// one before it.
#[test]
fn odd_panels_load_after_even_ones() {
    copies(|cta: ThisCta<OrderedPlan>, from, to| {
        let (cta, (even, odd, stores, order)) = cta.init();
        cta.specialize(
            |load| {
                load.two_warps(
                    |warp| {
                        let Some(one) = warp.elect() else { return };
                        let (mut loads, mut order) =
                            (even.producer.by(&one), order.main_loop.by(&one));
                        for panel in (0..PANELS).step_by(2) {
                            loads.acquire().load((from.tile(64 * panel, 0, Peers::ALONE),));
                            if panel == 0 {
                                order.arrive().step();
                            } else {
                                order.arrive_and_step();
                            }
                        }
                        loads.tail();
                    },
                    |warp| {
                        let Some(one) = warp.elect() else { return };
                        let (mut loads, mut order) =
                            (odd.producer.by(&one), order.epilogue.by(&one));
                        for panel in (1..PANELS).step_by(2) {
                            if panel == 1 {
                                let passed = order.wait();
                                loads.acquire().load((from.tile(64 * panel, 0, Peers::ALONE),));
                                passed.step();
                            } else {
                                order.wait_and_step();
                                loads.acquire().load((from.tile(64 * panel, 0, Peers::ALONE),));
                            }
                        }
                        loads.tail();
                    },
                );
            },
            |group| {
                let (mut even, mut odd) = (even.consumer.by(&group), odd.consumer.by(&group));
                let mut stores = stores.by(&group);
                for panel in (0..PANELS).step_by(2) {
                    let (a, b) = (even.wait(), odd.wait());
                    let mut out = stores.acquire();
                    for fragment in 0..4 {
                        out.put(fragment, a.fragment(&group, fragment));
                    }
                    out.publish().store(to, 64 * panel, 0);
                    let mut out = stores.acquire();
                    for fragment in 0..4 {
                        out.put(fragment, b.fragment(&group, fragment));
                    }
                    // The odd slot goes back first, so that the arriving thread is never two steps
                    // ahead.
                    b.release();
                    a.release();
                    out.publish().store(to, 64 * panel + 64, 0);
                }
                stores.tail();
            },
        );
    });
}
