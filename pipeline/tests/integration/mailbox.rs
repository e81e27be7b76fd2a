//! The mailbox between neighbouring CTAs of a cluster, on the SM model.
#![allow(missing_docs)]

use crate::common::run;
use pipeline::barrier::Mailbox;
use pipeline::cta::ClusterShape;
use pipeline::prelude::*;
use sim::{GlobalMemory, Rule};

names! { Mail = "mail" }
roles! { Other = 1 x 40 registers, Talk = 2 x 160 registers }

const WORDS: usize = 6;
type Plan<K> = SmemPlan<(Mailbox<WORDS, Talk, Mail, K>,)>;

/// A number for each word of each message of each thread.
fn word(rank: u32, thread: u32, step: u32, word: usize) -> f32 {
    (((rank * 256 + thread) * 32 + step) * 8) as f32 + word as f32
}

/// Every thread sends `steps` messages, and knows what the CTA before must have sent.
fn talk<K: ClusterShape>(cta: Cta<(Other, Talk), K, Plan<K>>, steps: u32, tail: bool) {
    let (cta, (mail,)) = cta.init();
    let rank = cta.coord().rank();
    let before = (rank + K::SIZE as u32 - 1) % K::SIZE as u32;
    cta.specialize(
        |_| {},
        |group| {
            let thread = 128 * group.index() + group.thread();
            let mut outbox = mail.outbox.by(&group);
            let mut inbox = mail.inbox.by(&group);
            for step in 0..steps {
                outbox.send(core::array::from_fn(|i| word(rank, thread, step, i)));
                let want: [u32; WORDS] =
                    core::array::from_fn(|i| word(before, thread, step, i).to_bits());
                assert_eq!(inbox.receive().map(f32::to_bits), want, "rank {rank}, step {step}");
            }
            if tail {
                outbox.tail();
            }
        },
    );
}

fn check<K: ClusterShape>(steps: u32, seed: u64) {
    let kernel = |cta| talk::<K>(cta, steps, true);
    run(seed, &GlobalMemory::new(), kernel)
        .unwrap_or_else(|report| panic!("{} CTAs, {steps} steps, seed {seed}:\n{report}", K::SIZE));
}

#[test]
fn every_thread_gets_its_neighbours_message() {
    for (seed, steps) in [0, 1, 2, 3, 30].into_iter().enumerate() {
        check::<Cluster<2, 1>>(steps, seed as u64);
        check::<Cluster<1, 3>>(steps, seed as u64);
        check::<Cluster<4, 2>>(steps, seed as u64);
    }
    check::<Cluster<4, 4>>(5, 0);
}

#[test]
fn the_schedule_does_not_matter() {
    for seed in 0..30 {
        check::<Cluster<2, 2>>(4, seed);
    }
}

/// Without the tail a CTA may be gone when its neighbour says that it has read.
#[test]
fn a_forgotten_tail_is_reported() {
    type Eight = Cluster<4, 2>;
    let reports = (0..60).filter_map(|seed| {
        let kernel = |cta| talk::<Eight>(cta, 1, false);
        run(seed, &GlobalMemory::new(), kernel).err()
    });
    let rules: Vec<Rule> = reports.map(|report| report.rule).collect();
    assert!(!rules.is_empty(), "60 schedules, and the neighbour was always there");
    assert!(rules.iter().all(|&rule| rule == Rule::PeerGone), "{rules:?}");
}
