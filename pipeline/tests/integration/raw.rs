//! Raw mbarriers on the SM model: arrivals, bytes, peers; and what the model says when the contract
//! of a handle is broken.

use crate::common::run;
use isa::cp_async_bulk;
use pipeline::prelude::*;
use pipeline::raw::{Arrivals, Barriers, Cluster as OfCluster, Cta as OfCta, Memory, Transactions};
use sim::{GlobalMemory, Rule};

names! { Bars = "bars", Bytes = "bytes" }
roles! { Fill = 1 x 40 registers, Use = 1 x 232 registers }

type Alone = Cluster<1, 1>;
type Pair = Cluster<2, 1>;
type ThisCta<K, P> = Cta<(Fill, Use), K, P>;

const BYTES: usize = 1024;
const WORDS: u32 = BYTES as u32 / 4;
const ROUNDS: u32 = 5;

/// One thread copies 1 KiB a round into one buffer; a warp group sums it.
fn copies_and_sums(expected: u32, seed: u64) -> Result<(), Box<sim::Report>> {
    type Plan = SmemPlan<(
        Memory<BYTES, Bytes>,
        Barriers<1, 1, OfCta, Transactions, Bars>,
        Barriers<1, 4, OfCta, Arrivals, Empty>,
    )>;
    names! { Empty = "empty" }
    let memory = GlobalMemory::new();
    let source = memory.alloc(BYTES * ROUNDS as usize);
    let words: Vec<u8> = (0..WORDS * ROUNDS).flat_map(u32::to_le_bytes).collect();
    memory.write(source, &words).expect("allocated");
    run(seed, &memory, |cta: ThisCta<Alone, Plan>| {
        let (cta, (data, full, empty)) = cta.init();
        cta.specialize(
            |group| {
                group.elect(|_one| {
                    // SAFETY: one arrival a phase on full, and as many bytes as are copied; four
                    // on empty, one from each reading warp; each side waits for the other's last.
                    let ([full], [empty]) = unsafe { (full.handles(), empty.handles()) };
                    for round in 0..ROUNDS {
                        empty.wait((round & 1) ^ 1);
                        full.arrive_expect::<BYTES>();
                        let from = (source + u64::from(round) * BYTES as u64) as *const u8;
                        // SAFETY: the buffer is empty; `from` lies in the allocation.
                        unsafe { cp_async_bulk::load(data, from, BYTES as u32, full.addr()) };
                    }
                    empty.wait((ROUNDS & 1) ^ 1);
                });
            },
            |group| {
                // SAFETY: as above.
                let ([full], [empty]) = unsafe { (full.handles(), empty.handles()) };
                for round in 0..ROUNDS {
                    full.wait(round & 1);
                    assert!(full.test_wait(round & 1));
                    for word in [group.thread(), group.thread() + 128] {
                        // SAFETY: the round's bytes have landed.
                        let value: u32 = unsafe { isa::shared::ld(data + 4 * word) };
                        assert_eq!(value, round * WORDS + word);
                    }
                    // SAFETY: the group is converged.
                    unsafe { isa::warp::sync_warp(u32::MAX) };
                    if group.thread().is_multiple_of(32) && group.thread() / 32 < expected {
                        empty.arrive();
                    }
                }
            },
        );
    })
    .map(drop)
}

#[test]
fn bytes_arrive_and_buffers_come_back() {
    for seed in 0..8 {
        copies_and_sums(4, seed).unwrap_or_else(|report| panic!("seed {seed}:\n{report}"));
    }
}

#[test]
fn a_missing_arrival_is_found() {
    let report = copies_and_sums(3, 1).expect_err("one warp never arrives");
    assert_eq!(report.rule, Rule::Deadlock, "{report}");
    assert!(report.to_string().contains("empty"), "{report}");
}

/// Each CTA writes a word into its peer's shared memory and hands it over through the peer's barrier.
#[test]
fn peers_hand_over_what_they_wrote() {
    type Plan = SmemPlan<(Memory<16, Bytes>, Barriers<1, 1, OfCluster, Arrivals, Bars>)>;
    for seed in 0..8 {
        run(seed, &GlobalMemory::new(), |cta: ThisCta<Pair, Plan>| {
            let (cta, (data, bars)) = cta.init();
            cta.specialize(
                |group| {
                    let rank = group.coord().rank();
                    group.elect(|_one| {
                        // SAFETY: one arrival, the peer's, in the only phase, which each CTA
                        // waits for before it exits.
                        let [here] = unsafe { bars.handles() };
                        let peer = 1 - rank;
                        // SAFETY: the peer's word, which only this thread writes.
                        unsafe {
                            isa::shared::st_cluster(isa::cluster::mapa(data, peer), 7 + rank);
                        }
                        here.remote(peer).arrive();
                        here.wait(0);
                        // SAFETY: written by the peer before its arrival.
                        let word: u32 = unsafe { isa::shared::ld(data) };
                        assert_eq!(word, 7 + peer);
                    });
                },
                |_| {},
            );
        })
        .unwrap_or_else(|report| panic!("seed {seed}:\n{report}"));
    }
}
