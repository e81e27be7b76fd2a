//! Certificates for any number of steps: every pairing of writers and readers, with 1 to 8 stages. The test of
//! all of them prints their numbers.
#![allow(missing_docs)]

use crate::common::{Image, run_with};
use half::bf16;
use pipeline::barrier::OrderedSequence;
use pipeline::cta::Region;
use pipeline::prelude::*;
use pipeline::raw::Memory;
use pipeline::ring::{
    Consumer, ConsumerEnd, CpAsync, MmaInTurn, MmaReaders, Readers, ReadsInTurn, TmaParts,
    WriteSlot,
};
use pipeline::tile::MatrixView;
use sim::{
    Certificate, Config, GlobalMemory, Limits, Refusal, Report, Rule, Stats, Trial, certify,
};
use std::time::Instant;

names! { Slots = "slots", Order = "turns" }
roles! {
    Load = 1 x 40 registers,
    Fill = 1 x 104 registers,
    One = 1 x 160 registers,
    Two = 2 x 160 registers,
}

type Alone = Cluster<1, 1>;
/// What a plan has beside its ring: the turns of two groups, or nothing of use.
type InTurn = OrderedSequence<1, Two, Order>;
type NoTurns = Memory<128, Order>;
type Turns = <InTurn as Region>::Ends;
type Panel = Tile<bf16, 64, 64>;
type TileB = Tile<bf16, 32, 64>;
/// Operands of a product, or two panels to read.
type Pair = (Panel, TileB);
type Refused = Refusal<Box<Report>>;

/// The operands of a run: each trial's data are other numbers.
struct Data {
    memory: GlobalMemory,
    a: Image,
    b: Image,
}

impl Data {
    fn new(trial: Trial) -> Self {
        let memory = GlobalMemory::new();
        let value = |i: usize| ((i + 3 * trial.data as usize) % 7) as f32;
        let cols = 64 * trial.steps as usize;
        let a = Image::new(&memory, 64, cols, value);
        let b = Image::new(&memory, 32, cols, value);
        Self { memory, a, b }
    }
}

fn run(
    f: impl Fn(&Config, Trial) -> Result<Stats, Box<Report>> + Sync,
) -> Result<Certificate, Refused> {
    certify(&Config::default(), &Limits::default(), f)
}

// The readers.

/// Every group reads every slot.
fn read<const S: usize, St: pipeline::ring::Stage, R: pipeline::cta::Role>(
    mut full: Consumer<S, St, Reads<R>, Slots, Alone>,
    steps: u32,
) {
    for _ in 0..steps {
        full.wait().release();
    }
}

/// The groups read the slots in turn. A group waits for its slot while it has the turn: the phases before
/// it are complete then.
fn read_in_turn<const S: usize, St: pipeline::ring::Stage>(
    end: ConsumerEnd<S, St, ReadsInTurn<Two>, Slots, Alone>,
    turns: Turns,
    group: &Warpgroup<Two, Alone>,
    steps: u32,
) {
    let (mut full, mut turns) = (end.by(group), turns.by(group));
    for step in 0..steps {
        if step % 2 == group.index() {
            let turn = turns.wait();
            let slot = full.wait();
            turn.pass_on();
            slot.release();
        } else {
            full.skip(1);
        }
    }
}

/// A product, with one batch in flight if there are two stages.
fn multiply<const S: usize, R: MmaReaders>(
    mut full: Consumer<S, Pair, R, Slots, Alone>,
    group: &Warpgroup<R::Role, Alone>,
    steps: u32,
) {
    let mut sum = Accumulator::<32>::start(group, full.wait());
    if S == 1 {
        let (mut sum, slot) = sum.finish();
        slot.release();
        for _ in 1..steps {
            let (next, slot) = sum.add(group, full.wait()).finish();
            slot.release();
            sum = next;
        }
        return;
    }
    for _ in 1..steps {
        sum.next(full.wait()).release();
    }
    sum.finish().1.release();
}

/// Products of one slot each, in turn.
fn multiply_in_turn<const S: usize>(
    end: ConsumerEnd<S, Pair, MmaInTurn<Two>, Slots, Alone>,
    turns: Turns,
    group: &Warpgroup<Two, Alone>,
    steps: u32,
) {
    let (mut full, mut turns) = (end.by(group), turns.by(group));
    for step in 0..steps {
        if step % 2 == group.index() {
            let turn = turns.wait();
            let sum = Accumulator::<32>::start(group, full.wait());
            turn.pass_on();
            sum.finish().1.release();
        } else {
            full.skip(1);
        }
    }
}

// The writers, with each of them.

/// A kernel of a ring filled by TMA, whose readers are given.
macro_rules! tma {
    ($stages:ident, $role:ty, $readers:ty, $beside:ty, |$ring:ident, $turns:ident, $group:ident, $steps:ident| $body:expr) => {
        run(|config, trial| {
            let (data, $steps) = (Data::new(trial), trial.steps);
            let (a, b) = (data.a.map::<Panel, _>(), data.b.map::<TileB, _>());
            type Plan<const S: usize> =
                SmemPlan<(Ring<S, Pair, Tma, $readers, Slots, Alone>, $beside)>;
            run_with(config, &data.memory, |cta: Cta<(Load, $role), Alone, Plan<$stages>>| {
                let (cta, ($ring, $turns)) = cta.init();
                let producer = $ring.producer;
                let $ring = $ring.consumer;
                cta.specialize(
                    |load| {
                        load.elect(|one| {
                            let mut loads = producer.by(&one);
                            for k in 0..$steps {
                                loads.acquire().load((
                                    a.tile(0, 64 * k, Peers::ALONE),
                                    b.tile(0, 64 * k, Peers::ALONE),
                                ));
                            }
                            loads.tail();
                        });
                    },
                    |$group| $body,
                );
            })
        })
    };
}

/// A slot of threads that write.
type Out<'g, St, R> = WriteSlot<'g, St, Fill, R, Slots, Alone>;

/// Puts values into a part of a panel.
fn put<R: Readers>(out: &mut Out<'_, (Panel,), R>, value: f32) {
    out.put(0, [value; 8]);
}

/// Puts values into all of two operands.
fn put_pair<R: Readers>(out: &mut Out<'_, Pair, R>, value: f32) {
    for fragment in 0..4 {
        out.put_to::<0>(fragment, [value; 8]);
        out.put_to::<1>(fragment, [value; 8]);
    }
}

/// The same where a warp of its own loads each operand.
macro_rules! parts {
    ($stages:ident, $role:ty, $readers:ty, $beside:ty, |$ring:ident, $turns:ident, $group:ident, $steps:ident| $body:expr) => {
        run(|config, trial| {
            let (data, $steps) = (Data::new(trial), trial.steps);
            let (a, b) = (data.a.map::<Panel, _>(), data.b.map::<TileB, _>());
            type Plan<const S: usize> =
                SmemPlan<(Ring<S, Pair, TmaParts, $readers, Slots, Alone>, $beside)>;
            run_with(config, &data.memory, |cta: Cta<(Load, $role), Alone, Plan<$stages>>| {
                let (cta, ($ring, $turns)) = cta.init();
                let (part_a, part_b) = $ring.producer.parts();
                let $ring = $ring.consumer;
                cta.specialize(
                    |load| {
                        load.two_warps(
                            |warp| {
                                let Some(one) = warp.elect() else { return };
                                let mut loads = part_a.by(&one);
                                for k in 0..$steps {
                                    loads.acquire().load(a.tile(0, 64 * k, Peers::ALONE));
                                }
                                loads.tail();
                            },
                            |warp| {
                                let Some(one) = warp.elect() else { return };
                                let mut loads = part_b.by(&one);
                                for k in 0..$steps {
                                    loads.acquire().load(b.tile(0, 64 * k, Peers::ALONE));
                                }
                                loads.tail();
                            },
                        );
                    },
                    |$group| $body,
                );
            })
        })
    };
}

/// A ring that a warp group fills with ordinary stores, as `$put` says.
macro_rules! writes {
    ($stages:ident, $stage:ty, $put:expr, $role:ty, $readers:ty, $beside:ty, |$ring:ident, $turns:ident, $group:ident, $steps:ident| $body:expr) => {
        run(|config, trial| {
            let (memory, $steps, data) = (GlobalMemory::new(), trial.steps, trial.data);
            type Plan<const S: usize> =
                SmemPlan<(Ring<S, $stage, Writes<Fill>, $readers, Slots, Alone>, $beside)>;
            run_with(config, &memory, |cta: Cta<(Fill, $role), Alone, Plan<$stages>>| {
                let (cta, ($ring, $turns)) = cta.init();
                let producer = $ring.producer;
                let $ring = $ring.consumer;
                cta.specialize(
                    |group| {
                        let mut slots = producer.by(&group);
                        for step in 0..$steps {
                            let mut out = slots.acquire();
                            $put(&mut out, (u64::from(step) + data) as f32);
                            out.commit();
                        }
                        slots.tail();
                    },
                    |$group| $body,
                );
            })
        })
    };
}

/// A ring of one panel that a warp group fills with `cp.async`.
macro_rules! copies {
    ($stages:ident, $role:ty, $readers:ty, $beside:ty, |$ring:ident, $turns:ident, $group:ident, $steps:ident| $body:expr) => {
        run(|config, trial| {
            let (data, $steps) = (Data::new(trial), trial.steps);
            type Plan<const S: usize> =
                SmemPlan<(Ring<S, [Panel; 1], CpAsync<Fill>, $readers, Slots, Alone>, $beside)>;
            run_with(config, &data.memory, |cta: Cta<(Fill, $role), Alone, Plan<$stages>>| {
                let cols = 64 * $steps;
                let from = MatrixView::new(data.a.slice(), 64, cols, cols);
                let (cta, ($ring, $turns)) = cta.init();
                let producer = $ring.producer;
                let $ring = $ring.consumer;
                cta.specialize(
                    |group| {
                        let mut slots = producer.by(&group);
                        for step in 0..$steps {
                            slots.acquire().copy([from.tile(0, 64 * step)]).commit();
                        }
                        slots.tail();
                    },
                    |$group| $body,
                );
            })
        })
    };
}

type Pairing = (&'static str, Box<dyn Fn() -> Result<Certificate, Refused>>);

/// Every pairing, with a number of stages.
fn pairings<const S: usize>() -> Vec<Pairing> {
    vec![
        (
            "Tma, Reads",
            Box::new(|| {
                tma!(S, One, Reads<One>, NoTurns, |ring, _turns, group, steps| read(
                    ring.by(&group),
                    steps
                ))
            }),
        ),
        (
            "Tma, ReadsInTurn",
            Box::new(|| {
                tma!(S, Two, ReadsInTurn<Two>, InTurn, |ring, turns, group, steps| read_in_turn(
                    ring, turns, &group, steps
                ))
            }),
        ),
        (
            "Tma, Mma",
            Box::new(|| {
                tma!(S, One, Mma<One>, NoTurns, |ring, _turns, group, steps| multiply(
                    ring.by(&group),
                    &group,
                    steps
                ))
            }),
        ),
        (
            "Tma, MmaInTurn",
            Box::new(|| {
                tma!(S, Two, MmaInTurn<Two>, InTurn, |ring, turns, group, steps| multiply_in_turn(
                    ring, turns, &group, steps
                ))
            }),
        ),
        (
            "TmaParts, Reads",
            Box::new(|| {
                parts!(S, One, Reads<One>, NoTurns, |ring, _turns, group, steps| read(
                    ring.by(&group),
                    steps
                ))
            }),
        ),
        (
            "TmaParts, ReadsInTurn",
            Box::new(|| {
                parts!(S, Two, ReadsInTurn<Two>, InTurn, |ring, turns, group, steps| read_in_turn(
                    ring, turns, &group, steps
                ))
            }),
        ),
        (
            "TmaParts, Mma",
            Box::new(|| {
                parts!(S, One, Mma<One>, NoTurns, |ring, _turns, group, steps| multiply(
                    ring.by(&group),
                    &group,
                    steps
                ))
            }),
        ),
        (
            "TmaParts, MmaInTurn",
            Box::new(|| {
                parts!(
                    S,
                    Two,
                    MmaInTurn<Two>,
                    InTurn,
                    |ring, turns, group, steps| multiply_in_turn(ring, turns, &group, steps)
                )
            }),
        ),
        (
            "Writes, Reads",
            Box::new(|| {
                writes!(S, (Panel,), put, One, Reads<One>, NoTurns, |ring, _turns, group, steps| {
                    read(ring.by(&group), steps);
                })
            }),
        ),
        (
            "Writes, ReadsInTurn",
            Box::new(|| {
                writes!(
                    S,
                    (Panel,),
                    put,
                    Two,
                    ReadsInTurn<Two>,
                    InTurn,
                    |ring, turns, group, steps| read_in_turn(ring, turns, &group, steps)
                )
            }),
        ),
        (
            "Writes, Mma",
            Box::new(|| {
                writes!(S, Pair, put_pair, One, Mma<One>, NoTurns, |ring, _turns, group, steps| {
                    multiply(ring.by(&group), &group, steps);
                })
            }),
        ),
        (
            "CpAsync, Reads",
            Box::new(|| {
                copies!(S, One, Reads<One>, NoTurns, |ring, _turns, group, steps| read(
                    ring.by(&group),
                    steps
                ))
            }),
        ),
    ]
}

/// Certifies the pairings whose name `chosen` takes, with a number of stages.
fn all_certified<const S: usize>(chosen: impl Fn(&str) -> bool) {
    for (name, certify) in pairings::<S>().into_iter().filter(|(name, _)| chosen(name)) {
        let start = Instant::now();
        let certificate = certify().unwrap_or_else(|e| panic!("{name}, {S} stages: {e}"));
        let Certificate { period, bound, first, states, .. } = certificate;
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "{name}, {S} stages: period {period}, bound {bound}, {states} states, {seconds:.1} s"
        );
        // Two wraps of the ring, after which the parities are the same again. Each group has its turn every
        // second step, and the turn's parities are the same again after four.
        let stages = S as u32;
        let in_turn = name.ends_with("InTurn") && S % 2 == 1;
        assert_eq!(period, if in_turn { 4 } else { 2 } * stages, "{name}: {certificate}");
        assert!(bound >= 16.max(first + 3 * period), "{certificate}");
        let ring = |name: &str| (format!("slots.{name}"), stages);
        assert!(
            ["empty", "full"].iter().all(|name| certificate.barriers.contains(&ring(name))),
            "{certificate}"
        );
    }
}

#[test]
fn pairings_of_one_and_two_stages() {
    all_certified::<1>(|_| true);
    all_certified::<2>(|_| true);
}

#[test]
fn a_pairing_of_four_to_eight_stages() {
    let reads = |name: &str| name == "Tma, Reads";
    all_certified::<4>(reads);
    all_certified::<8>(reads);
}

#[test]
#[ignore = "minutes in a debug build"]
fn every_pairing_of_one_to_eight_stages() {
    all_certified::<1>(|_| true);
    all_certified::<2>(|_| true);
    all_certified::<3>(|_| true);
    all_certified::<4>(|_| true);
    all_certified::<5>(|_| true);
    all_certified::<6>(|_| true);
    all_certified::<7>(|_| true);
    all_certified::<8>(|_| true);
}

#[test]
fn a_slot_that_is_kept_at_step_seven_is_found() {
    let refusal = tma!(THREE, One, Reads<One>, NoTurns, |ring, _turns, group, steps| {
        let mut full = ring.by(&group);
        for step in 0..steps {
            let slot = full.wait();
            // Forgotten once, when the ring is in its third wrap.
            if step != 7 {
                slot.release();
            }
        }
    })
    .expect_err("the producer waits for the slot again");
    let Refusal::Finding { steps, finding } = refusal else { panic!("{refusal}") };
    // The tail of the producer waits for every slot.
    assert_eq!((finding.error.rule, steps), (Rule::Deadlock, 8), "{finding}");
}

const THREE: usize = 3;
