//! Waiters that could be lapped, in any schedule; and all that orders the end of a wait before an arrival.

use crate::common::{Map, Shape, breaks, passes, smem, tensor, tid};
use sim::ops::cp_async_bulk as bulk;
use sim::ops::{barrier, fence, mbarrier, misc, shared, thread, warp};
use sim::{GlobalMemory, Rule};

fn init<const N: usize>(counts: [u32; N]) -> [u32; N] {
    let bars = std::array::from_fn(|i| smem(8 * i as u32));
    if tid() == 0 {
        bars.iter().zip(counts).for_each(|(bar, count)| mbarrier::init(*bar, count));
        fence::mbarrier_init_release_cluster();
    }
    thread::sync_threads();
    bars
}

/// Six phases of a barrier that warp 1 waits for; `answer` is what leads from its waits to the arrivals.
fn six(threads: u32, answer: impl Fn(u32) + Sync) -> impl Fn() + Sync {
    move || {
        let [bar, ..] = init([1, 1]);
        for step in 0..6 {
            if tid() == 0 {
                mbarrier::arrive(bar);
            } else if (32..threads).contains(&tid()) {
                mbarrier::wait_parity(bar, step & 1);
            }
            answer(step);
        }
    }
}

#[test]
fn what_orders_threads_keeps_waiters_from_laps() {
    passes(Shape(33, 1, 64), six(33, |_| thread::sync_threads()));
    // One lane answers for its warp, after an instruction of the whole warp: no memory follows, and none
    // is needed.
    let meetings: [fn(); 4] = [
        || warp::sync_warp(u32::MAX),
        || _ = warp::shfl_idx(1, 0),
        || _ = warp::vote_all(true),
        || _ = warp::elect_one(),
    ];
    for meet in meetings {
        let answer = |step: u32| {
            if tid() >= 32 {
                meet();
                if tid() == 40 {
                    mbarrier::arrive(smem(8));
                }
            } else if tid() == 0 {
                mbarrier::wait_parity(smem(8), step & 1);
            }
        };
        passes(Shape(64, 1, 64), six(64, answer));
    }
    // A named barrier, which one side does not wait for.
    passes(
        Shape(64, 1, 64),
        six(64, |_| if tid() < 32 { barrier::sync(1, 64) } else { barrier::arrive(1, 64) }),
    );
    // A flag in global memory.
    let memory = GlobalMemory::new();
    let flag = memory.alloc(4);
    memory.write(flag, &[0; 4]).unwrap();
    let answer = move |step: u32| {
        let flag = flag as *mut u32;
        if tid() == 32 {
            sim::ops::global::st_release_gpu_u32(flag, step + 1);
        } else if tid() == 0 {
            while sim::ops::global::ld_acquire_gpu_u32(flag) != step + 1 {
                misc::nanosleep(10);
            }
        }
    };
    let kernel = six(33, answer);
    crate::common::run_on(&memory, 3, Shape(33, 1, 64), kernel).unwrap_or_else(|r| panic!("{r}"));
}

#[test]
fn without_it_every_schedule_shows_the_lap() {
    let report = breaks(Rule::Lapped, Shape(33, 1, 64), six(33, |_| {}));
    assert!(report.other.is_some() || report.message.contains("lapped"), "{report}");
    // Lanes may be slow, each alone.
    let first = |step: u32| {
        if tid() == 32 {
            mbarrier::arrive(smem(8));
        } else if tid() == 0 {
            mbarrier::wait_parity(smem(8), step & 1);
        }
    };
    breaks(Rule::Lapped, Shape(64, 1, 64), six(64, first));
}

/// The barrier is armed before the slot is free: the bytes come later, and with them the end of the phase.
#[test]
fn a_copy_after_the_wait_is_as_good_as_an_arrival() {
    let memory = GlobalMemory::new();
    let map: Map = tensor(&memory);
    let kernel = || {
        let [full, empty] = init([1, 1]);
        for step in 0..4 {
            if tid() == 0 {
                if step > 0 {
                    mbarrier::wait_parity(full, (step - 1) & 1);
                }
                mbarrier::arrive_expect_tx(full, 256);
                mbarrier::wait_parity(empty, (step & 1) ^ 1);
                bulk::tensor_load(smem(128), map.at(), [0, 0], full);
            } else if tid() == 32 {
                mbarrier::wait_parity(full, step & 1);
                shared::ld::<u32>(smem(128));
                mbarrier::arrive(empty);
            }
        }
    };
    for seed in 0..50 {
        crate::common::run_on(&memory, seed, Shape(33, 1, 1024), kernel)
            .unwrap_or_else(|r| panic!("{r}"));
    }
}

/// Two readers take phases in turn: each hears from the other that the phase between is over.
#[test]
fn phases_are_left_out_by_who_knows_of_their_end() {
    let turns = |told: bool| {
        move || {
            let [bar, back, turn] = init([1, 1, 1]);
            for step in 0..6 {
                if tid() == 0 {
                    mbarrier::arrive(bar);
                    mbarrier::wait_parity(back, step & 1);
                } else if tid() == 32 + 32 * (step & 1) {
                    if told && step > 0 {
                        mbarrier::wait_parity(turn, (step - 1) & 1);
                    }
                    mbarrier::wait_parity(bar, step & 1);
                    if told && step < 5 {
                        mbarrier::arrive(turn);
                    }
                    mbarrier::arrive(back);
                }
            }
        }
    };
    passes(Shape(96, 1, 64), turns(true));
    breaks(Rule::Lapped, Shape(96, 1, 64), turns(false));
}

#[test]
fn who_comes_to_a_named_barrier_knows_of_the_use_before() {
    // Warp 0 waits each time, and the others arrive in turn; `tell` is what the last arriver tells the next.
    let turns = |tell: fn(u32)| {
        move || {
            init([1, 1, 1]);
            for turn in 0..6 {
                let arrives = 1 + turn % 2;
                if tid() / 32 == 0 {
                    barrier::sync(1, 64);
                } else if tid() / 32 == arrives {
                    barrier::arrive(1, 64);
                }
                tell(turn);
            }
        }
    };
    // One lane of warp 0 answers, one lane of the next warp hears it, and the warp meets.
    let answer = |turn: u32| {
        let (next, bar) = (1 + (turn + 1) % 2, smem(8 + 8 * (turn % 2)));
        if tid() == 5 {
            mbarrier::arrive(bar);
        } else if tid() / 32 == next {
            if tid() % 32 == 9 {
                mbarrier::wait_parity(bar, turn / 2 % 2);
            }
            _ = warp::elect_one();
        }
    };
    passes(Shape(96, 1, 64), turns(answer));
    passes(Shape(96, 1, 64), turns(|_| thread::sync_threads()));
    breaks(Rule::NamedBarrier, Shape(96, 1, 64), turns(|_| ()));
}
