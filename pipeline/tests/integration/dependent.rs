//! Launches that overlap: what a kernel owes the next one, although it needs nothing of the one ahead.

use crate::support::{Load, Work};
use isa::{global, griddepcontrol, thread};
use pipeline::cta::Ready;
use pipeline::grid::BeforeWait;
use pipeline::prelude::*;
use sim::{Config, GlobalMemory, Grid, Launch, Report, Rule};

type Plan = SmemPlan<()>;
type Token = Cta<(Load, Work), Cluster<1, 1>, Plan>;

/// Three kernels, of which the third reads what the first writes; `between` gets the token of the second.
fn chain(
    seed: u64,
    between: impl Fn(BeforeWait<Ready<(Load, Work), Cluster<1, 1>>>) + Sync,
) -> Result<(), Box<Report>> {
    let memory = GlobalMemory::new();
    let words = memory.alloc(4 * 1024);
    let word = || (words + 4 * u64::from(thread::thread_idx_x())) as *mut u32;
    let first = || {
        griddepcontrol::launch_dependents();
        // SAFETY: each thread has a word.
        unsafe { global::st(word(), 7u32) };
    };
    let second = || {
        // SAFETY: the first thing that each thread does, in a launch of the token's shape.
        let cta = unsafe { Token::enter() };
        cta.launch_dependents();
        between(cta.prologue().0);
    };
    let third = || {
        griddepcontrol::wait();
        // SAFETY: each thread has a word.
        assert_eq!(unsafe { global::ld::<u32>(word()) }, 7);
    };
    let grid = |name| Grid {
        grid: [1; 3],
        block: [Token::THREADS, 1, 1],
        cluster: [1; 3],
        min_ctas: 1,
        smem_bytes: 0,
        name,
    };
    let launches = [
        Launch { grid: grid("first"), entry: &first, dependent: false },
        Launch { grid: grid("second"), entry: &second, dependent: true },
        Launch { grid: grid("third"), entry: &third, dependent: true },
    ];
    let config = Config { seed, workers: Some(1), ..Config::default() };
    sim::launch_all(&config, &memory, &launches).map(|_| ())
}

#[test]
fn a_token_that_is_dropped_waits() {
    for seed in 0..40 {
        chain(seed, drop).unwrap_or_else(|r| panic!("{r}"));
        chain(seed, |early| {
            // In the middle of the kernel as well as at its end.
            let _early = early;
            thread_syncs();
        })
        .unwrap_or_else(|r| panic!("{r}"));
        let report = chain(seed, std::mem::forget).expect_err("nobody waits");
        assert!(matches!(report.rule, Rule::Dependent | Rule::Panic), "{report}");
    }
}

fn thread_syncs() {
    // SAFETY: all threads come.
    unsafe { thread::sync_threads() };
}
