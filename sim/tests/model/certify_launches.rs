//! Certificates of kernels whose clusters take each other's work, and of what the order of warps decides in tensor memory.

use crate::common::{smem, tid};
use sim::ops::{clusterlaunchcontrol as clc, fence, mbarrier, tcgen05, thread};
use sim::{Certificate, Config, GlobalMemory, Grid, Limits, Refusal, Report, certify};

type Refused = Refusal<Box<Report>>;

/// Certifies a kernel of two warps in a grid of a cluster for each step.
fn certified(kernel: impl Fn() + Sync) -> Result<Certificate, Refused> {
    certify(&Config::default(), &Limits::default(), |config, trial| {
        let (grid, block) = ([trial.steps, 1, 1], [64, 1, 1]);
        let (cluster, smem_bytes) = ([1; 3], 256);
        let grid = Grid { grid, block, cluster, min_ctas: 1, smem_bytes, name: "test" };
        sim::launch(config, &GlobalMemory::new(), &grid, &kernel)
    })
}

/// Asks until a request fails, with a barrier and an answer at these places.
fn ask(bar: u32, answer: u32) {
    mbarrier::init(bar, 1);
    fence::proxy_async_shared_cta();
    let mut parity = 0;
    loop {
        mbarrier::arrive_expect_tx(bar, 16);
        clc::try_cancel(answer, bar);
        mbarrier::wait_parity(bar, parity);
        parity ^= 1;
        let Some(_) = clc::query_cancel(answer) else { break };
        fence::proxy_async_shared_cta();
    }
}

#[test]
fn one_thread_that_asks_has_the_period_of_its_parity() {
    let kernel = || {
        if tid() == 0 {
            ask(smem(0), smem(64));
        }
    };
    let certificate = certified(kernel).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(certificate.period, 2, "{certificate}");
    let shares = certificate.shares.unwrap();
    assert!(shares.starts_with("clusterlaunchcontrol.try_cancel at "), "{shares}");
}

/// Each may get what the other would.
#[test]
fn two_threads_that_ask_are_refused() {
    let refused = certified(|| {
        if tid().is_multiple_of(32) {
            ask(smem(8 * (tid() / 32)), smem(64 + 16 * (tid() / 32)));
        }
    });
    assert!(
        matches!(refused, Err(Refusal::Traces { .. } | Refusal::Finding { .. })),
        "{refused:?}"
    );
}

/// A cluster that asks once leaves launches to others.
#[test]
fn clusters_that_share_the_launches_are_refused() {
    let refused = certified(|| {
        if tid() == 0 {
            let bar = smem(0);
            mbarrier::init(bar, 1);
            fence::proxy_async_shared_cta();
            mbarrier::arrive_expect_tx(bar, 16);
            clc::try_cancel(smem(64), bar);
            mbarrier::wait_parity(bar, 0);
            let _ = clc::query_cancel(smem(64));
        }
    });
    let Err(Refusal::Clusters { name, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(name, "clusterlaunchcontrol.try_cancel");
}

/// The first of two warps gets column 0.
#[test]
fn allocations_that_can_overtake_are_refused() {
    let refused = certified(|| {
        let warp = tid() / 32;
        tcgen05::alloc(smem(4 * warp), 32 << warp);
        thread::sync_threads();
        let address: u32 = sim::ops::shared::ld(smem(4 * warp));
        tcgen05::dealloc(address, 32 << warp);
    });
    assert!(matches!(refused, Err(Refusal::Traces { .. })), "{refused:?}");
}
