//! Random straight-line programs against an oracle that looks at all pairs of accesses.

use crate::common::tid;
use proptest::prelude::*;
use sim::ops::{barrier, cluster, cp_async_bulk, fence, mbarrier, shared, warp};
use sim::{Config, GlobalMemory, Grid, Rule};

const THREADS: u32 = 4;
/// Bytes that the programs use, after the barriers.
const DATA: u32 = 256;

/// A step, in an order in which all of them can be executed.
#[derive(Clone, Debug)]
enum Step {
    Store {
        by: u32,
        at: u32,
        len: u32,
    },
    Load {
        by: u32,
        at: u32,
        len: u32,
    },
    /// A bulk store of 16 bytes, waited for until it has read.
    Send {
        by: u32,
        at: u32,
    },
    /// `fence.proxy.async`
    Fence {
        by: u32,
    },
    /// One arrives at a barrier of its own, the other waits for it.
    Tell {
        from: u32,
        to: u32,
    },
    /// `bar.warp.sync`
    Meet {
        mask: u32,
    },
    /// A named barrier: all.
    All,
    /// Threads come together in a vote, which orders nothing.
    Vote,
}

fn step() -> impl Strategy<Value = Step> {
    let by = 0..THREADS;
    let place = (prop_oneof![Just(2u32), Just(4), Just(8)], 0..16u32);
    let access = (by.clone(), place).prop_map(|(by, (len, i))| (by, i * 2 / len * len, len));
    prop_oneof![
        3 => access.clone().prop_map(|(by, at, len)| Step::Store { by, at, len }),
        3 => access.prop_map(|(by, at, len)| Step::Load { by, at, len }),
        1 => (by.clone(), 0..2u32).prop_map(|(by, i)| Step::Send { by, at: 16 * i }),
        2 => by.clone().prop_map(|by| Step::Fence { by }),
        4 => (by.clone(), by).prop_map(|(from, to)| Step::Tell { from, to }),
        2 => (1..1u32 << THREADS).prop_map(|mask| Step::Meet { mask }),
        1 => Just(Step::All),
        1 => Just(Step::Vote),
    ]
}

/// Runs it.
fn finding(steps: &[Step], seed: u64) -> Option<Rule> {
    let memory = GlobalMemory::new();
    let out = memory.alloc(16 * steps.len());
    let grid = Grid {
        grid: [1; 3],
        block: [THREADS, 1, 1],
        cluster: [1; 3],
        min_ctas: 1,
        smem_bytes: DATA + 32,
        name: "random",
    };
    let config = Config { seed, check_uninitialised: false, ..Config::default() };
    let kernel = || {
        let base = shared::dynamic_base();
        let data = base + DATA;
        if tid() == 0 {
            for i in 0..steps.len() as u32 {
                mbarrier::init(base + 8 * i, 1);
            }
        }
        cluster::arrive_release();
        cluster::wait_acquire();
        for (i, step) in steps.iter().enumerate() {
            let bar = base + 8 * i as u32;
            match *step {
                Step::Store { by, at, len } if by == tid() => match len {
                    2 => shared::st(data + at, 0u16),
                    4 => shared::st(data + at, 0u32),
                    _ => shared::st(data + at, 0u64),
                },
                Step::Load { by, at, len } if by == tid() => {
                    match len {
                        2 => u64::from(shared::ld::<u16>(data + at)),
                        4 => u64::from(shared::ld::<u32>(data + at)),
                        _ => shared::ld::<u64>(data + at),
                    };
                }
                Step::Send { by, at } if by == tid() => {
                    cp_async_bulk::store((out + 16 * i as u64) as *mut u8, data + at, 16);
                    cp_async_bulk::commit_group();
                    cp_async_bulk::wait_group_read::<0>();
                }
                Step::Fence { by } if by == tid() => fence::proxy_async_shared_cta(),
                Step::Tell { from, to } => {
                    if from == tid() {
                        mbarrier::arrive(bar);
                    }
                    if to == tid() {
                        mbarrier::wait_parity(bar, 0);
                    }
                }
                Step::Meet { mask } if mask >> tid() & 1 == 1 => warp::sync_warp(mask),
                Step::All => barrier::sync_unaligned(1, THREADS),
                Step::Vote => {
                    warp::vote_any(true);
                }
                _ => {}
            }
        }
    };
    sim::launch(&config, &memory, &grid, &kernel).err().map(|r| r.rule)
}

#[derive(Clone, Copy)]
struct Access {
    node: usize,
    at: u32,
    len: u32,
    write: bool,
    copy: bool,
}

/// The rules that a program breaks: all pairs, all paths.
fn oracle(steps: &[Step]) -> Vec<Rule> {
    // Two nodes a step: the second is the wait of a `Tell`.
    let n = 2 * steps.len();
    let mut before = vec![vec![false; n]; n];
    let mut last = [None::<usize>; THREADS as usize];
    let (mut accesses, mut fences) = (Vec::new(), Vec::new());
    for (i, step) in steps.iter().enumerate() {
        let node = 2 * i;
        let mut comes = |thread: u32, node: usize| {
            if let Some(l) = last[thread as usize].replace(node) {
                before[l][node] = true;
            }
        };
        match *step {
            Step::Store { by, at, len } | Step::Load { by, at, len } => {
                comes(by, node);
                let write = matches!(step, Step::Store { .. });
                accesses.push(Access { node, at, len, write, copy: false });
            }
            Step::Send { by, at } => {
                comes(by, node);
                accesses.push(Access { node, at, len: 16, write: false, copy: true });
            }
            Step::Fence { by } => {
                comes(by, node);
                fences.push(node);
            }
            Step::Tell { from, to } => {
                comes(from, node);
                comes(to, node + 1);
                before[node][node + 1] = true;
            }
            Step::Meet { mask } => {
                (0..THREADS).filter(|t| mask >> t & 1 == 1).for_each(|t| comes(t, node));
            }
            Step::All => (0..THREADS).for_each(|t| comes(t, node)),
            Step::Vote => {}
        }
    }
    for k in 0..n {
        for i in 0..n {
            for j in 0..n {
                before[i][j] |= before[i][k] && before[k][j];
            }
        }
    }
    let mut rules = Vec::new();
    for (i, a) in accesses.iter().enumerate() {
        for b in &accesses[i + 1..] {
            if a.at + a.len <= b.at || b.at + b.len <= a.at || !(a.write || b.write) {
                continue;
            }
            // The steps come in an order in which they can be executed: b is never before a.
            if !before[a.node][b.node] {
                rules.extend([Rule::SharedRace, Rule::StoreReads]);
            } else if b.copy && !fences.iter().any(|&f| before[a.node][f] && before[f][b.node]) {
                rules.push(Rule::Proxy);
            }
        }
    }
    rules
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Whatever the schedule, a finding comes if and only if two accesses are not in order.
    #[test]
    fn found_if_and_only_if_it_is_there(
        steps in prop::collection::vec(step(), 1..24),
        seed in 0..1000u64,
    ) {
        let rules = oracle(&steps);
        for seed in [seed, seed + 1000] {
            match finding(&steps, seed) {
                None => prop_assert!(rules.is_empty(), "{rules:?} not found with seed {seed}"),
                Some(rule) => prop_assert!(rules.contains(&rule), "{rule:?}, not {rules:?}"),
            }
        }
    }
}

/// Both answers come often enough for the test above to mean something.
#[test]
fn the_programs_are_of_both_kinds() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let programs = prop::collection::vec(step(), 1..24);
    let mut draw = || oracle(&programs.new_tree(&mut runner).unwrap().current());
    let all: Vec<_> = (0..400).map(|_| draw()).collect();
    let clean = all.iter().filter(|r| r.is_empty()).count();
    let proxy = all.iter().filter(|r| r.contains(&Rule::Proxy)).count();
    assert!(clean > 40 && clean < 360 && proxy > 20, "{clean} clean, {proxy} unfenced");
}
