//! Certificates: which kernels get one, with which numbers, and which are refused.

use crate::common::{Shape, smem, tid};
use sim::ops::{barrier, cluster, cp_async_bulk, fence, global, mbarrier, shared};
use sim::{
    Certificate, Config, GlobalMemory, Grid, Limits, Refusal, Report, Rule, Stats, Trial, certify,
};

type Refused = Refusal<Box<Report>>;

/// Certifies a kernel, which gets the trial and 16 bytes of global memory that begin with its data.
fn certified(
    Shape(threads, ctas, smem_bytes): Shape,
    kernel: impl Fn(Trial, u64) + Sync,
) -> Result<Certificate, Refused> {
    let grid = Grid {
        grid: [ctas, 1, 1],
        block: [threads, 1, 1],
        cluster: [ctas, 1, 1],
        min_ctas: 1,
        smem_bytes,
        name: "test",
    };
    let run = |config: &Config, trial: Trial| -> Result<Stats, Box<Report>> {
        let memory = GlobalMemory::new();
        let data = memory.alloc(16);
        memory.write(data, &(trial.data as u32).to_le_bytes()).expect("just allocated");
        sim::launch(config, &memory, &grid, &|| kernel(trial, data))
    };
    certify(&Config::default(), &Limits::default(), run)
}

/// What a ring does in a step.
#[derive(Clone, Copy)]
struct Slot {
    step: u32,
    stages: u32,
}

impl Slot {
    fn full(self) -> u32 {
        smem(8 * (self.step % self.stages))
    }
    fn empty(self) -> u32 {
        smem(64 + 8 * (self.step % self.stages))
    }
    fn words(self) -> u32 {
        smem(128 + 16 * (self.step % self.stages))
    }
    fn parity(self) -> u32 {
        (self.step / self.stages) & 1
    }
}

const RING: Shape = Shape(64, 1, 256);

/// A ring: thread 0 writes 16 bytes per slot, by TMA or by itself, and the threads of the second warp
/// read them; `writes` and `reads` may replace a step's instructions.
fn ring(trial: Trial, stages: u32, writes: impl Fn(Slot) -> bool, reads: impl Fn(Slot) -> bool) {
    if tid() == 0 {
        for stage in 0..stages {
            mbarrier::init(smem(8 * stage), 1);
            mbarrier::init(smem(64 + 8 * stage), 32);
        }
    }
    barrier::sync_unaligned(0, 64);
    for step in 0..trial.steps {
        let slot = Slot { step, stages };
        if tid() == 0 && !writes(slot) {
            mbarrier::wait_parity(slot.empty(), slot.parity() ^ 1);
            shared::st(slot.words(), step);
            mbarrier::arrive(slot.full());
        }
        if tid() >= 32 && !reads(slot) {
            mbarrier::wait_parity(slot.full(), slot.parity());
            let _: u32 = shared::ld(slot.words());
            mbarrier::arrive(slot.empty());
        }
    }
}

#[test]
fn rings_of_all_depths_have_the_period_of_two_wraps() {
    for stages in 1..=8 {
        let certificate = certified(RING, |trial, _| ring(trial, stages, |_| false, |_| false))
            .unwrap_or_else(|refusal| panic!("{stages} stages: {refusal}"));
        let Certificate { period, bound, lead, first, runs, .. } = certificate;
        assert_eq!(period, 2 * stages, "{certificate}");
        // The period was seen four times and more, in every residue.
        assert!(bound >= 16 && bound >= first + 3 * period, "{certificate}");
        assert_eq!((u64::from(bound), certificate.clusters, certificate.threads), (runs, 1, 64));
        // Per step: a wait and an arrival by the writer, and by each of the 32 readers.
        assert_eq!(certificate.events as u32, period * 2 * 33);
        assert!(lead <= 1, "{certificate}");
    }
}

#[test]
fn the_page_names_the_numbers_and_the_assumptions() {
    let certificate = certified(RING, |trial, _| ring(trial, 3, |_| false, |_| false)).unwrap();
    let page = certificate.to_string();
    let parts =
        ["certificate of test", "6 steps", "one trace", "for any number of steps", "assumed"];
    for part in parts.into_iter().chain(Certificate::assumptions().iter().copied()) {
        assert!(page.contains(part), "{part}:\n{page}");
    }
}

/// Two CTAs with a slot each, filled by TMA. Both readers free both slots, in the order of `first`.
fn pair(first: impl Fn(u32) -> u32 + Sync) -> Result<Certificate, Refused> {
    let kernel = |trial: Trial, from: u64| {
        let bar = |i: u32| smem(8 * i);
        if tid() == 0 {
            mbarrier::init(bar(0), 1);
            mbarrier::init(bar(1), 2);
            fence::mbarrier_init_release_cluster();
        }
        cluster::arrive_release();
        cluster::wait_acquire();
        for step in 0..trial.steps {
            if tid() == 0 {
                mbarrier::wait_parity(bar(1), step & 1 ^ 1);
                mbarrier::arrive_expect_tx(bar(0), 16);
                cp_async_bulk::load(smem(64), from as *const u8, 16, bar(0));
            }
            if tid() == 32 {
                mbarrier::wait_parity(bar(0), step & 1);
                let _: u32 = shared::ld(smem(64));
                let rank = first(cluster::cta_rank());
                for rank in [rank, rank ^ 1] {
                    mbarrier::arrive_remote(cluster::mapa(bar(1), rank));
                }
            }
        }
        cluster::arrive_release();
        cluster::wait_acquire();
    };
    certified(Shape(64, 2, 128), kernel)
}

#[test]
fn a_cluster_of_two_is_certified() {
    let certificate = pair(|rank| rank).unwrap_or_else(|refusal| panic!("{refusal}"));
    assert_eq!((certificate.period, certificate.threads), (2, 128), "{certificate}");
}

#[test]
fn an_arrival_that_can_overtake_is_refused() {
    // If both free CTA 0's slot first, reader 0 can be back at CTA 1's slot before reader 1 has come there
    // once: its second arrival completes the phase in the place of the other's.
    let refusal = pair(|_| 0).unwrap_err();
    assert!(matches!(refusal, Refusal::Traces { .. } | Refusal::Finding { .. }), "{refusal}");
}

fn rule(refusal: Refused) -> (Rule, u32) {
    match refusal {
        Refusal::Finding { steps, finding } => (finding.error.rule, steps),
        other => panic!("{other}"),
    }
}

#[test]
fn a_bug_of_step_seven_is_found() {
    // The readers do not release the slot of step 7: the writer comes back to it in step 7 + stages.
    for stages in [1, 2, 3] {
        let forgets = |slot: Slot| {
            let bug = slot.step == 7;
            if bug {
                mbarrier::wait_parity(slot.full(), slot.parity());
            }
            bug
        };
        let refusal =
            certified(RING, |trial, _| ring(trial, stages, |_| false, forgets)).unwrap_err();
        assert_eq!(rule(refusal), (Rule::Deadlock, 8 + stages));
    }
}

#[test]
fn a_bug_of_the_third_wrap_is_found() {
    // From the third wrap on the reader takes the wrong parity, and does not wait.
    for stages in [1, 2, 4, 8] {
        let hasty = |slot: Slot| {
            let bug = slot.step / slot.stages == 2;
            if bug {
                mbarrier::wait_parity(slot.full(), slot.parity() ^ 1);
                let _: u32 = shared::ld(slot.words());
                mbarrier::arrive(slot.empty());
            }
            bug
        };
        let refusal =
            certified(RING, |trial, _| ring(trial, stages, |_| false, hasty)).unwrap_err();
        let steps = match refusal {
            Refusal::Finding { steps, .. } | Refusal::Traces { steps, .. } => steps,
            other => panic!("{other}"),
        };
        assert!(steps > 2 * stages, "{steps} steps, {stages} stages");
    }
}

#[test]
fn a_harmless_exception_at_step_seven_moves_the_start() {
    let other_line = |slot: Slot| {
        let other = slot.step == 7;
        if other {
            mbarrier::wait_parity(slot.empty(), slot.parity() ^ 1);
            shared::st(slot.words(), 0u32);
            mbarrier::arrive(slot.full());
        }
        other
    };
    let certificate = certified(RING, |trial, _| ring(trial, 2, other_line, |_| false)).unwrap();
    assert!(certificate.first > 7 && certificate.bound >= certificate.first + 12, "{certificate}");
}

#[test]
fn a_wait_that_depends_on_data_is_refused() {
    // The writer's second barrier is used only if the data say so.
    let kernel = |trial: Trial, flag: u64| {
        let in_turn = |slot: Slot| {
            let wait: u32 = global::ld(flag as *const u32);
            if wait == 1 {
                mbarrier::wait_parity(slot.empty(), slot.parity() ^ 1);
            }
            false
        };
        ring(trial, 1, in_turn, |_| false);
    };
    let refusal = certified(RING, kernel).unwrap_err();
    assert!(matches!(refusal, Refusal::Data { .. }), "{refusal}");
    // A wait that comes in some steps only.
    let kernel = |trial: Trial, _: u64| {
        let in_turn = |slot: Slot| {
            if (slot.step * slot.step + 5) % 11 < 4 {
                mbarrier::wait_parity(slot.empty(), slot.parity() ^ 1);
            }
            false
        };
        ring(trial, 2, in_turn, |_| false);
    };
    // The squares repeat after 11 steps and the ring after 4, together after 44: that is beyond the limit.
    let refusal = certified(RING, kernel).unwrap_err();
    assert!(matches!(refusal, Refusal::NoPeriod { bound: 128 }), "{refusal}");
}

#[test]
fn a_poll_is_refused() {
    let polls = |slot: Slot| {
        let _ = mbarrier::test_wait_parity(slot.full(), slot.parity());
        false
    };
    let refusal = certified(RING, |trial, _| ring(trial, 2, |_| false, polls)).unwrap_err();
    assert!(matches!(refusal, Refusal::Traces { steps: 1, .. }), "{refusal}");
}

#[test]
fn a_thread_that_waits_for_nobody_is_refused() {
    // Thread 1 marks a barrier of its own in each step: nobody waits for it, and it waits for nobody.
    let kernel = |trial: Trial, _: u64| {
        if tid() == 1 {
            mbarrier::init(smem(200), 1);
            for _ in 0..trial.steps {
                mbarrier::arrive(smem(200));
            }
        }
        ring(trial, 1, |_| false, |_| false);
    };
    let refusal = certified(RING, kernel).map(|c| c.to_string());
    // It does all of its steps before the barrier that all meet at, which the others' words do not
    // repeat: the body would be in two places.
    assert!(matches!(refusal, Err(Refusal::NoPeriod { .. })), "{refusal:?}");
    let kernel = |trial: Trial, _: u64| {
        let mark = |_: Slot| false;
        if tid() == 1 {
            mbarrier::init(smem(200), 1);
        }
        ring(trial, 1, mark, |_| false);
        for _ in 0..if tid() == 1 { trial.steps } else { 0 } {
            mbarrier::arrive(smem(200));
        }
    };
    let refusal = certified(RING, kernel).map(|c| c.to_string());
    assert!(refusal.is_err(), "{refusal:?}");
}

#[test]
fn a_deadlock_that_needs_many_steps_is_found() {
    // A second barrier counts one arrival too many for every sixteenth step.
    let kernel = |trial: Trial, _: u64| {
        let stops = |slot: Slot| {
            if slot.step == 15 {
                mbarrier::wait_parity(slot.empty(), slot.parity());
            }
            false
        };
        ring(trial, 8, stops, |_| false);
    };
    let (rule, steps) = rule(certified(RING, kernel).unwrap_err());
    assert!(steps >= 16, "{rule:?} with {steps} steps");
}

#[test]
fn a_grid_that_grows_is_refused() {
    let refusal = on_grids(|trial| trial.steps, |_| {}).unwrap_err();
    assert!(matches!(refusal, Refusal::Grid { steps: 2 }), "{refusal}");
}

#[test]
fn clusters_that_talk_are_refused() {
    let refusal = on_grids(
        |_| 2,
        |word| {
            global::atomic_add_u32(word as *mut u32, 1);
        },
    );
    assert!(matches!(refusal, Err(Refusal::Clusters { .. })), "{refusal:?}");
    // One cluster alone may: the certificate names the instruction.
    let certificate = on_grids(
        |_| 1,
        |word| {
            global::atomic_add_u32(word as *mut u32, 1);
        },
    );
    let shares = certificate.unwrap().shares.unwrap();
    assert!(shares.starts_with("atom.global.add at "), "{shares}");
}

/// Runs a ring in each CTA of a grid of clusters of one; each thread then calls `end` with a word of
/// global memory.
fn on_grids(
    ctas: impl Fn(Trial) -> u32 + Sync,
    end: impl Fn(u64) + Sync,
) -> Result<Certificate, Refused> {
    let Shape(threads, _, smem_bytes) = RING;
    let one = [1; 3];
    certify(&Config::default(), &Limits::default(), |config, trial| {
        let memory = GlobalMemory::new();
        let word = memory.alloc(4);
        let (grid, block) = ([ctas(trial), 1, 1], [threads, 1, 1]);
        let grid = Grid { grid, block, cluster: one, min_ctas: 1, smem_bytes, name: "test" };
        sim::launch(config, &memory, &grid, &|| {
            ring(trial, 1, |_| false, |_| false);
            if tid() == 0 {
                end(word);
            }
        })
    })
}
