//! Turns on the SM model, with nothing in a section that would keep a group's warps together.
#![allow(missing_docs)]

use crate::common::run;
use pipeline::barrier::OrderedSequence;
use pipeline::cta::{ClusterCoord, Role};
use pipeline::prelude::*;
use sim::GlobalMemory;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

names! { Turns = "turns" }
roles! { Idle = 1 x 40 registers, Two = 2 x 200 registers, Three = 3 x 152 registers }

type Plan<const DEPTH: usize, Ro> = SmemPlan<(OrderedSequence<DEPTH, Ro, Turns>,)>;

/// Threads that are in each section, by group; whose turn it was last.
struct Section {
    inside: [AtomicU32; 3],
    turns: AtomicU32,
}

/// `rounds` rounds of all sections. Whoever is in one looks whether another group is in it too.
fn exclusive<const DEPTH: usize, Ro: Role>(seed: u64, rounds: u32) {
    let sections: [Section; DEPTH] = std::array::from_fn(|_| Section {
        inside: std::array::from_fn(|_| AtomicU32::new(0)),
        turns: AtomicU32::new(0),
    });
    run(seed, &GlobalMemory::new(), |cta: Cta<(Idle, Ro), _, Plan<DEPTH, Ro>>| {
        let (cta, (turns,)) = cta.init();
        let _: ClusterCoord<Cluster<1, 1>> = cta.coord();
        cta.specialize(
            |_| {},
            |group| {
                let mut sequence = turns.by(&group);
                for (round, section) in
                    (0..rounds).flat_map(|r| sections.iter().map(move |s| (r, s)))
                {
                    let turn = sequence.wait();
                    let own = group.index() as usize;
                    section.inside[own].fetch_add(1, SeqCst);
                    // Others run here.
                    sim::ops::sreg::clock64();
                    for (other, inside) in section.inside.iter().enumerate() {
                        let threads = inside.load(SeqCst);
                        assert!(other == own || threads == 0, "{own} with {threads} of {other}");
                    }
                    if group.thread() == 0 {
                        let turn = section.turns.fetch_add(1, SeqCst);
                        assert_eq!(turn, round * Ro::GROUPS as u32 + group.index());
                    }
                    section.inside[own].fetch_sub(1, SeqCst);
                    turn.pass_on();
                }
            },
        );
    })
    .unwrap_or_else(|report| panic!("{DEPTH} sections, seed {seed}:\n{report}"));
}

#[test]
fn one_group_at_a_time_in_order() {
    for seed in 0..20 {
        exclusive::<1, Two>(seed, 5);
        exclusive::<2, Two>(seed, 3);
        exclusive::<2, Three>(seed, 3);
    }
}
