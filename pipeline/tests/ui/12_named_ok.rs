//! Named barriers with names of their own: ids and counts are the plan's.
use crate::support::*;
use super::copies;

type MeetPlan = SmemPlan<(
    PanelRing,
    Buffers,
    NamedBarrier<Load, Work, Meet>,
    NamedBarrier<warpipe_pipeline::barrier::Nobody, Work, Other>,
)>;

#[test]
fn the_loading_group_arrives_and_the_working_group_meets_it() {
    assert_eq!(MeetPlan::first_barrier::<(Load, Work)>(), 3);
    copies(|cta: ThisCta<MeetPlan>, from, to| {
        let (cta, (ring, stores, meet, count)) = cta.init();
        cta.specialize(
            |load| {
                meet.arriver.arrive(&load);
                one_thread(load, |one| load_panels(ring.producer, &one, from));
            },
            |group| {
                meet.waiter.sync(&group);
                assert_eq!(count.waiter.popc(&group, group.thread() < 10), 10);
                store_panels(ring.consumer, stores, &group, to);
            },
        );
    });
}
