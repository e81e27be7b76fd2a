//! CTAs synchronise at the cluster's hardware barrier in every round, with a split arrive and wait.
//! (CUTLASS `cluster_arrive`, `cluster_arrive_relaxed`, `cluster_wait`.)
//!
//! In every round another CTA is late. The recorded times show that no CTA continued without it. With an
//! arrival that releases, all threads of the other CTAs see what each CTA wrote before it.

use isa::kernel;
use isa::slice::DeviceSliceMut;
use isa::{misc, sreg, thread};
use pipeline::cta::ClusterShape;
use pipeline::prelude::*;
use pipeline::raw::Memory;

names! { Nothing = "nothing" }
roles! { Some = 1 x 40 registers, Others = 1 x 40 registers }

type Plan = SmemPlan<(Memory<128, Nothing>,)>;
type ThisCta<K> = Cta<(Some, Others), K, Plan>;
/// Threads of a CTA.
pub const THREADS: u32 = ThisCta::<Cluster<1, 1>>::THREADS;
/// Delay of the late CTA in nanoseconds.
const LATE_NS: u32 = 20_000;

/// The word that a CTA writes in a round.
#[inline(always)]
#[must_use]
pub const fn word(round: u32, rank: u32) -> u32 {
    (round + 1) * (3 * rank + 1)
}

/// Runs `rounds` rounds. For each cluster, round and rank, `times` gets the CTA's clock before its arrival
/// and after its wait, and `words` the word that the CTA writes. `found` gets, for each thread, the sum of
/// the words that it reads (with RELAXED nothing, because the order of memory is not guaranteed).
#[inline(always)]
fn meet<const RELAXED: bool, K: ClusterShape>(
    cta: ThisCta<K>,
    times: &DeviceSliceMut<u32>,
    words: &DeviceSliceMut<u32>,
    found: &DeviceSliceMut<u32>,
    rounds: u32,
) {
    let (mut cta, _memory) = cta.init();
    let at = cta.coord();
    let (ctas, rank, thread) = (K::SIZE as u32, at.rank(), thread::thread_idx_x());
    let mut sum = 0;
    for round in 0..rounds {
        let first = (at.cluster_id() * rounds + round) * ctas;
        let own = (first + rank) as usize;
        if thread == 0 {
            if round % ctas == rank {
                misc::nanosleep(LATE_NS);
            }
            words.set(own, word(round, rank));
            times.set(2 * own, sreg::globaltimer() as u32);
        }
        let arrived = if RELAXED { cta.cluster_arrive_relaxed() } else { cta.cluster_arrive() };
        // Work that needs no other CTA.
        let in_between = word(round, rank);
        cta = arrived.wait();
        if thread == 0 {
            times.set(2 * own + 1, sreg::globaltimer() as u32);
        }
        for peer in 0..if RELAXED { 0 } else { ctas } {
            let theirs = words.get((first + peer) as usize).unwrap_or(0);
            sum += if peer == rank { in_between } else { theirs };
        }
    }
    found.set(((at.cluster_id() * ctas + rank) * THREADS + thread) as usize, sum);
    cta.specialize(|_| {}, |_| {});
}

/// One of the kernels below.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy)]
pub struct Instance {
    /// The kernel.
    pub desc: &'static isa::kernel::KernelDesc,
    /// CTAs of its cluster.
    pub ctas: u32,
    /// Whether an arrival releases earlier writes.
    pub releases: bool,
}

macro_rules! instances {
    ($($name:ident: $cm:literal x $cn:literal, relaxed $relaxed:literal;)+) => {
        $(
            /// An instance of the table in this file.
            #[kernel]
            pub fn $name(
                cta: ThisCta<Cluster<$cm, $cn>>,
                times: DeviceSliceMut<u32>,
                words: DeviceSliceMut<u32>,
                found: DeviceSliceMut<u32>,
                rounds: u32,
            ) {
                meet::<$relaxed, Cluster<$cm, $cn>>(cta, &times, &words, &found, rounds);
            }
        )+

        /// Every instance.
        #[cfg(not(target_arch = "nvptx64"))]
        pub const INSTANCES: &[Instance] = &[$(Instance {
            desc: &<$name as kernel::Kernel>::DESC, ctas: $cm * $cn, releases: !$relaxed,
        }),+];
    };
}

instances! {
    meet_1x1: 1 x 1, relaxed false;
    meet_1x2: 1 x 2, relaxed false;
    meet_2x2: 2 x 2, relaxed false;
    meet_4x4: 4 x 4, relaxed false;
    meet_relaxed_1x2: 1 x 2, relaxed true;
    meet_relaxed_2x2: 2 x 2, relaxed true;
    meet_relaxed_4x4: 4 x 4, relaxed true;
}
