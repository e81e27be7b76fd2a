//! Launch control: clusters that take over the work of others that have not started.

use crate::world::{init, smem, tid};
use crate::{Bug, Shape, bug, cluster, family};
use isa::clusterlaunchcontrol::{query_cancel, try_cancel, try_cancel_multicast};
use isa::{fence, mbarrier, shared, thread};

family! { "launch_control.rs":
    an_answer_read_before_it_arrives
    an_answer_overwritten_while_it_is_read
    an_answer_marked_without_the_fence
    a_request_after_a_failed_one
    a_request_that_expects_no_bytes
    an_answer_that_the_peer_does_not_get
}

/// Where the answers lie.
const ANSWER: u32 = 512;
/// Eight CTAs of two warps.
const GRID: Shape = Shape { ctas: 8, ..cluster(1, 64) };
/// Four clusters of two CTAs.
const PAIRS: Shape = Shape { ctas: 8, ..cluster(2, 64) };

/// Asks, and arms the barrier before.
unsafe fn ask(to: u32, full: u32) {
    // SAFETY: the barrier is between phases; the caller's answers are free.
    unsafe {
        mbarrier::arrive_expect_tx(full, 16);
        try_cancel(to, full);
    }
}

fn an_answer_read_before_it_arrives() -> Bug {
    bug(
        "The answer is queried without the wait for its mbarrier",
        "PTX manual, `clusterlaunchcontrol.try_cancel`: the mbarrier alone says that it is there",
        GRID,
        // SAFETY: the missing wait is the bug.
        |_, bug| unsafe {
            let [full] = init([1]);
            if tid() == 0 {
                ask(smem(ANSWER), full); //~ WP028
                if !bug {
                    mbarrier::wait_parity(full, 0);
                }
                query_cancel(smem(ANSWER)); //~ WP016 WP017 WP034
            }
        },
    )
}

fn an_answer_overwritten_while_it_is_read() -> Bug {
    bug(
        "The next request is made when the first warp has read the answer, and not when all have",
        "the count of the empty barrier of `PipelineCLCFetchAsync`",
        GRID,
        // SAFETY: the missing wait for the second warp is the bug.
        |_, bug| unsafe {
            let [full, empty] = init([1, if bug { 32 } else { 64 }]);
            if tid() == 0 {
                ask(smem(ANSWER), full);
            }
            mbarrier::wait_parity(full, 0);
            let first = query_cancel(smem(ANSWER)); //~ WP017 WP034 WP036
            fence::proxy_async_shared_cta();
            if tid() < 32 || !bug {
                mbarrier::arrive(empty);
            }
            if tid() == 0 && first.is_some() {
                mbarrier::wait_parity(empty, 0);
                mbarrier::arrive_expect_tx(full, 16);
                try_cancel(smem(ANSWER), full); //~ WP017 WP034 WP036
                mbarrier::wait_parity(full, 1);
            }
        },
    )
}

fn an_answer_marked_without_the_fence() -> Bug {
    bug(
        "A thread marks the answer as taken with an ordinary store, and the next answer is requested into the same memory without a \
         proxy fence",
        "CUTLASS `fence_view_async_shared` in `fetch_next_work`",
        GRID,
        // SAFETY: the missing fence is the bug.
        |_, bug| unsafe {
            let [full, ready] = init([1, 64]);
            if tid() == 0 {
                ask(smem(ANSWER), full);
            }
            mbarrier::wait_parity(full, 0);
            let first = query_cancel(smem(ANSWER));
            thread::sync_threads();
            if tid() == 33 {
                shared::st(smem(ANSWER), 0_u32); //~ WP036
            }
            if !bug {
                fence::proxy_async_shared_cta();
            }
            mbarrier::arrive(ready);
            if tid() == 0 && first.is_some() {
                mbarrier::wait_parity(ready, 0);
                mbarrier::arrive_expect_tx(full, 16);
                try_cancel(smem(ANSWER), full); //~ WP036
                mbarrier::wait_parity(full, 1);
            }
        },
    )
}

fn a_request_after_a_failed_one() -> Bug {
    bug(
        "The CTA asks once more after a request has failed",
        "PTX manual, `clusterlaunchcontrol.try_cancel`: a request after an observed failure is undefined",
        GRID,
        // SAFETY: the further request is the bug.
        |_, bug| unsafe {
            let [full] = init([1]);
            if tid() == 0 {
                for phase in 0..16 {
                    mbarrier::arrive_expect_tx(full, 16);
                    try_cancel(smem(ANSWER), full); //~ WP056
                    mbarrier::wait_parity(full, phase & 1);
                    let taken = query_cancel(smem(ANSWER)); //~ WP056
                    fence::proxy_async_shared_cta();
                    if taken.is_none() && !bug {
                        break;
                    }
                }
            }
        },
    )
}

fn a_request_that_expects_no_bytes() -> Bug {
    bug(
        "The mbarrier gets an ordinary arrival, and no `expect_tx` of the answer's 16 bytes: its phase completes before the answer is there",
        "PTX manual, `clusterlaunchcontrol.try_cancel`: the answer is a transaction of 16 bytes",
        GRID,
        // SAFETY: the missing bytes are the bug.
        |_, bug| unsafe {
            let [full] = init([1]);
            if tid() == 0 {
                if bug {
                    mbarrier::arrive(full);
                } else {
                    mbarrier::arrive_expect_tx(full, 16);
                }
                try_cancel(smem(ANSWER), full); //~ WP003 WP016 WP017 WP028
                mbarrier::wait_parity(full, 0);
                query_cancel(smem(ANSWER)); //~ WP016 WP017 WP034
            }
        },
    )
}

fn an_answer_that_the_peer_does_not_get() -> Bug {
    bug(
        "The first CTA asks for itself alone, and the other CTA of the cluster waits for the answer",
        "`try_cancel` without `.multicast::cluster::all`",
        PAIRS,
        // SAFETY: the missing multicast is the bug.
        |_, bug| unsafe {
            let [full] = init([1]);
            isa::cluster::arrive_release();
            isa::cluster::wait_acquire();
            if tid() == 0 {
                mbarrier::arrive_expect_tx(full, 16); //~ WP002
            }
            isa::cluster::arrive_release();
            isa::cluster::wait_acquire();
            if tid() == 0 && isa::cluster::cta_rank() == 0 {
                if bug {
                    try_cancel(smem(ANSWER), full);
                } else {
                    try_cancel_multicast(smem(ANSWER), full);
                }
            }
            mbarrier::wait_parity(full, 0); //~ WP001 WP002
            query_cancel(smem(ANSWER));
            isa::cluster::arrive_release();
            isa::cluster::wait_acquire();
        },
    )
}
