//! Two groups take turns by named barriers.
use crate::support::*;
use crate::common::run;
use sim::GlobalMemory;
use std::sync::Mutex;

type TurnPlan = SmemPlan<(NamedSequence<Pair, Order>,)>;

#[test]
fn groups_come_in_turn() {
    for seed in 0..4 {
        let (memory, log) = (GlobalMemory::new(), Mutex::new(Vec::new()));
        run(seed, &memory, |cta: Cta<(Load, Pair), Alone, TurnPlan>| {
            let (cta, (turns,)) = cta.init();
            cta.specialize(
                |_| {},
                |group| {
                    let mut turns = turns.by(&group);
                    for _ in 0..3 {
                        let turn = turns.wait();
                        if group.thread() == 0 {
                            log.lock().unwrap().push(group.index());
                        }
                        turn.pass_on();
                    }
                },
            );
        })
        .unwrap_or_else(|report| panic!("seed {seed}:\n{report}"));
        assert_eq!(log.into_inner().unwrap(), [0, 1, 0, 1, 0, 1], "seed {seed}");
    }
}
