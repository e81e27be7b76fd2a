//! The cluster's barrier on the SM model: what one CTA wrote before its arrival, the next one reads
//! after the wait.

use crate::common::run;
use pipeline::prelude::*;
use pipeline::raw::Memory;
use sim::GlobalMemory;

names! { Words = "words" }
roles! { One = 1 x 40 registers, Two = 1 x 40 registers }

type Plan = SmemPlan<(Memory<1024, Words>,)>;
const THREADS: u32 = 256;

/// Each CTA writes its rank to a table in global memory, meets the others twice (the second time only
/// to know that all have read), and counts the ranks that it then finds.
fn meet<const M: usize, const N: usize>(seed: u64, relaxed_first: bool) -> Vec<u32> {
    let memory = GlobalMemory::new();
    let ctas = M * N;
    let table = memory.alloc(4 * ctas);
    let found = memory.alloc(4 * ctas * THREADS as usize);
    run(seed, &memory, |cta: Cta<(One, Two), Cluster<M, N>, Plan>| {
        let (cta, _memory) = cta.init();
        let rank = cta.coord().rank();
        let cta = if relaxed_first { cta.cluster_arrive_relaxed().wait() } else { cta };
        let thread = sim::ops::thread::thread_idx_x();
        if thread == 0 {
            sim::ops::global::st((table + 4 * u64::from(rank)) as *mut u32, rank + 1);
        }
        let arrived = cta.cluster_arrive();
        let cta = arrived.wait();
        let sum: u32 =
            (0..ctas as u64).map(|r| sim::ops::global::ld((table + 4 * r) as *const u32)).sum();
        let at = found + 4 * u64::from(rank * THREADS + thread);
        sim::ops::global::st(at as *mut u32, sum);
        cta.specialize(|_| {}, |_| {});
    })
    .unwrap_or_else(|report| panic!("{M} x {N}, seed {seed}:\n{report}"));
    let mut bytes = vec![0; 4 * ctas * THREADS as usize];
    memory.read(found, &mut bytes).expect("allocated");
    bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

#[test]
fn every_thread_sees_what_every_cta_wrote() {
    for seed in 0..8 {
        for relaxed_first in [false, true] {
            assert!(meet::<1, 1>(seed, relaxed_first).iter().all(|&sum| sum == 1));
            assert!(meet::<2, 1>(seed, relaxed_first).iter().all(|&sum| sum == 1 + 2));
            assert!(meet::<2, 2>(seed, relaxed_first).iter().all(|&sum| sum == 1 + 2 + 3 + 4));
        }
    }
}
