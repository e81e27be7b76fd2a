//! mbarriers: 64-bit objects in shared memory that count arrivals and transaction bytes.
//!
//! PTX manual: *Parallel Synchronization and Communication*, `mbarrier`. PTX 7.0 sm_80 for `init`,
//! `inval`, `arrive`, `arrive_drop`, `test_wait` and `pending_count`; 7.8 sm_90 for `try_wait`; 8.0
//! sm_90 for transactions and remote forms.
//!
//! A phase completes as soon as no arrival is pending *and* the transaction count is zero; an arrival or
//! a completed transaction can be the last event. A wait for parity `p` passes when the phase of that
//! parity has completed: on a fresh barrier, a wait for parity 1 passes and one for parity 0 blocks.
//!
//! `bar` is the address of 8 aligned bytes in this CTA's shared memory. `rbar` is the address of such a
//! barrier in any CTA of the cluster, from [`crate::cluster::mapa`]. A thread can arrive at a remote
//! barrier and expect bytes on it, but it cannot wait on it. Arrivals release and waits acquire at CTA
//! scope unless the name states another scope.

#[cfg(target_arch = "nvptx64")]
use crate::watchdog::Watchdog;

ops! { mbarrier;
    /// `mbarrier.init.shared::cta.b64`: initialises a barrier with `count` arrivals per phase, in phase 0.
    ///
    /// # Safety
    /// `bar` is 8 aligned bytes of this CTA's shared memory that hold no live mbarrier. `count` is
    /// from 1 to 2^20 - 1. Other threads use it only after a fence and a barrier (see
    /// [`crate::fence::mbarrier_init_release_cluster`]).
    pub unsafe fn init(bar: u32, count: u32) {
        ptx!("mbarrier.init.shared::cta.b64 [{}], {};", in(reg32) bar, in(reg32) count)
    }
    /// `mbarrier.inval.shared::cta.b64`: invalidates the barrier, so that its memory can be reused.
    ///
    /// # Safety
    /// `bar` is an initialised mbarrier that no thread and no copy uses any more.
    pub unsafe fn inval(bar: u32) {
        ptx!("mbarrier.inval.shared::cta.b64 [{}];", in(reg32) bar)
    }
    /// `mbarrier.arrive.shared::cta.b64`: arrives once. Returns the phase's token for [`test_wait`].
    ///
    /// # Safety
    /// `bar` is an initialised mbarrier whose phase still expects an arrival.
    pub unsafe fn arrive(bar: u32) -> u64 {
        trace!(Arrive, crate::trace::own(bar));
        let token: u64;
        ptx!("mbarrier.arrive.shared::cta.b64 {}, [{}];", out(reg64) token, in(reg32) bar);
        token
    }
    /// `mbarrier.arrive.shared::cta.b64` with a count: arrives `n` times.
    ///
    /// # Safety
    /// `bar` is an initialised mbarrier whose phase still expects `n` arrivals, `n` at least 1.
    pub unsafe fn arrive_count(bar: u32, n: u32) -> u64 {
        trace!(Arrive, crate::trace::own(bar));
        let token: u64;
        ptx!(
            "mbarrier.arrive.shared::cta.b64 {}, [{}], {};",
            out(reg64) token, in(reg32) bar, in(reg32) n
        );
        token
    }
    /// `mbarrier.arrive.noComplete.shared::cta.b64`: arrives `n` times without completing the phase.
    ///
    /// # Safety
    /// `bar` is an initialised mbarrier whose phase expects more than `n` arrivals, `n` at least 1.
    pub unsafe fn arrive_no_complete(bar: u32, n: u32) -> u64 {
        let token: u64;
        ptx!(
            "mbarrier.arrive.noComplete.shared::cta.b64 {}, [{}], {};",
            out(reg64) token, in(reg32) bar, in(reg32) n
        );
        token
    }
    /// `mbarrier.arrive_drop.shared::cta.b64`: arrives once, and reduces the arrivals of every later phase
    /// by one.
    ///
    /// # Safety
    /// `bar` is an initialised mbarrier whose phase still expects an arrival.
    pub unsafe fn arrive_drop(bar: u32) -> u64 {
        let token: u64;
        ptx!("mbarrier.arrive_drop.shared::cta.b64 {}, [{}];", out(reg64) token, in(reg32) bar);
        token
    }
    /// `mbarrier.arrive_drop.shared::cta.b64` with a count: as [`arrive_drop`], `n` times.
    ///
    /// # Safety
    /// `bar` is an initialised mbarrier whose phase still expects `n` arrivals, `n` at least 1.
    pub unsafe fn arrive_drop_count(bar: u32, n: u32) -> u64 {
        let token: u64;
        ptx!(
            "mbarrier.arrive_drop.shared::cta.b64 {}, [{}], {};",
            out(reg64) token, in(reg32) bar, in(reg32) n
        );
        token
    }
    /// `mbarrier.arrive.expect_tx.shared::cta.b64`: *adds* `bytes` to the transaction count, then
    /// arrives once. PTX 8.0.
    ///
    /// # Safety
    /// `bar` is an initialised mbarrier whose phase still expects an arrival, and copies that
    /// complete on it bring `bytes` (at most 2^20 - 1 outstanding).
    pub unsafe fn arrive_expect_tx(bar: u32, bytes: u32) -> u64 {
        trace!(Arrive, crate::trace::own(bar));
        let token: u64;
        ptx!(
            "mbarrier.arrive.expect_tx.shared::cta.b64 {}, [{}], {};",
            out(reg64) token, in(reg32) bar, in(reg32) bytes
        );
        token
    }
    /// `mbarrier.expect_tx.relaxed.cta.shared::cta.b64`: adds `bytes` to the transaction count of
    /// the phase in progress. PTX 8.0.
    ///
    /// # Safety
    /// `bar` is an initialised mbarrier whose phase still lacks an arrival, and copies bring `bytes`.
    pub unsafe fn expect_tx(bar: u32, bytes: u32) {
        ptx!(
            "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [{}], {};",
            in(reg32) bar, in(reg32) bytes
        )
    }
    /// `mbarrier.complete_tx.relaxed.cta.shared::cta.b64`: subtracts `bytes` from the transaction count, as
    /// a completed copy does. It may complete the phase. PTX 8.0.
    ///
    /// # Safety
    /// `bar` is an initialised mbarrier on which `bytes` are, or will be, expected in this phase.
    pub unsafe fn complete_tx(bar: u32, bytes: u32) {
        ptx!(
            "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [{}], {};",
            in(reg32) bar, in(reg32) bytes
        )
    }
    /// `mbarrier.arrive.shared::cluster.b64 _`: arrives once at a barrier of the cluster.
    ///
    /// The instruction has no `.release.cluster`, because ptxas would put a memory barrier before each such
    /// arrival, in the middle of the main loop. This form is correct for a slot that only wgmma has read,
    /// where the retired wgmma group orders the release. For data that other CTAs access by ordinary loads
    /// and stores, use [`arrive_remote_release_cluster`].
    ///
    /// # Safety
    /// `rbar` is an initialised mbarrier of a CTA of the cluster that has not exited, and its phase
    /// still expects an arrival.
    pub unsafe fn arrive_remote(rbar: u32) {
        trace!(remote rbar);
        ptx!("mbarrier.arrive.shared::cluster.b64 _, [{}];", in(reg32) rbar)
    }
    /// `mbarrier.arrive.shared::cluster.b64 _` with a count: as [`arrive_remote`], `n` times.
    ///
    /// # Safety
    /// As [`arrive_remote`], `n` arrivals still expected, `n` at least 1.
    pub unsafe fn arrive_remote_count(rbar: u32, n: u32) {
        trace!(remote rbar);
        ptx!("mbarrier.arrive.shared::cluster.b64 _, [{}], {};", in(reg32) rbar, in(reg32) n)
    }
    /// `mbarrier.arrive.release.cluster.shared::cluster.b64 _`: arrives once. This thread's earlier writes
    /// are visible to a thread after its cluster-scope wait ([`wait_parity_cluster`]).
    ///
    /// # Safety
    /// As [`arrive_remote`].
    pub unsafe fn arrive_remote_release_cluster(rbar: u32) {
        trace!(remote rbar);
        ptx!("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [{}];", in(reg32) rbar)
    }
    /// `mbarrier.arrive.expect_tx.shared::cluster.b64 _`: as [`arrive_expect_tx`], remotely.
    ///
    /// # Safety
    /// As [`arrive_remote`]; copies that complete on the barrier bring `bytes`.
    pub unsafe fn arrive_expect_tx_remote(rbar: u32, bytes: u32) {
        trace!(remote rbar);
        ptx!(
            "mbarrier.arrive.expect_tx.shared::cluster.b64 _, [{}], {};",
            in(reg32) rbar, in(reg32) bytes
        )
    }
    /// `mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64`: as [`expect_tx`], remotely.
    ///
    /// # Safety
    /// As [`expect_tx`], for a barrier of a CTA of the cluster that has not exited.
    pub unsafe fn expect_tx_remote(rbar: u32, bytes: u32) {
        ptx!(
            "mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [{}], {};",
            in(reg32) rbar, in(reg32) bytes
        )
    }
    /// `mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64`: as [`complete_tx`], remotely.
    ///
    /// # Safety
    /// As [`complete_tx`], for a barrier of a CTA of the cluster that has not exited.
    pub unsafe fn complete_tx_remote(rbar: u32, bytes: u32) {
        ptx!(
            "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [{}], {};",
            in(reg32) rbar, in(reg32) bytes
        )
    }
    /// `mbarrier.test_wait.shared::cta.b64`: returns whether the phase of `token` has completed, without
    /// waiting.
    ///
    /// # Safety
    /// `bar` is an initialised mbarrier; `token` is from its current phase or the one before.
    pub unsafe fn test_wait(bar: u32, token: u64) -> bool {
        let out: u32;
        ptx!(
            "{{ .reg .pred p; mbarrier.test_wait.shared::cta.b64 p, [{1}], {2}; \
             selp.b32 {0}, 1, 0, p; }}",
            out(reg32) out, in(reg32) bar, in(reg64) token
        );
        out != 0
    }
    /// `mbarrier.test_wait.parity.shared::cta.b64`: returns whether the phase of that parity has completed,
    /// without waiting.
    ///
    /// # Safety
    /// `bar` is an initialised mbarrier; the caller is at most one phase behind it.
    pub unsafe fn test_wait_parity(bar: u32, parity: u32) -> bool {
        let out: u32;
        ptx!(
            "{{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [{1}], {2}; \
             selp.b32 {0}, 1, 0, p; }}",
            out(reg32) out, in(reg32) bar, in(reg32) parity
        );
        out != 0
    }
    /// `mbarrier.test_wait.parity.acquire.cluster.shared::cta.b64`: as [`test_wait_parity`], with acquire
    /// at cluster scope. PTX 8.0.
    ///
    /// # Safety
    /// As [`test_wait_parity`].
    pub unsafe fn test_wait_parity_cluster(bar: u32, parity: u32) -> bool {
        let out: u32;
        ptx!(
            "{{ .reg .pred p; mbarrier.test_wait.parity.acquire.cluster.shared::cta.b64 p, [{1}], {2}; \
             selp.b32 {0}, 1, 0, p; }}",
            out(reg32) out, in(reg32) bar, in(reg32) parity
        );
        out != 0
    }
    /// `mbarrier.try_wait.shared::cta.b64`: as [`test_wait`], but may suspend the thread for a time before
    /// it returns false.
    ///
    /// # Safety
    /// As [`test_wait`].
    pub unsafe fn try_wait(bar: u32, token: u64) -> bool {
        let out: u32;
        ptx!(
            "{{ .reg .pred p; mbarrier.try_wait.shared::cta.b64 p, [{1}], {2}; \
             selp.b32 {0}, 1, 0, p; }}",
            out(reg32) out, in(reg32) bar, in(reg64) token
        );
        out != 0
    }
    /// `mbarrier.try_wait.parity.shared::cta.b64`: as [`test_wait_parity`], but may suspend the thread for
    /// a time before it returns false.
    ///
    /// # Safety
    /// As [`test_wait_parity`].
    pub unsafe fn try_wait_parity(bar: u32, parity: u32) -> bool {
        let out: u32;
        ptx!(
            "{{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [{1}], {2}; \
             selp.b32 {0}, 1, 0, p; }}",
            out(reg32) out, in(reg32) bar, in(reg32) parity
        );
        out != 0
    }
    /// `mbarrier.try_wait.parity.shared::cta.b64` with a time limit: suspends the thread for at most `ns`
    /// nanoseconds.
    ///
    /// # Safety
    /// As [`test_wait_parity`].
    pub unsafe fn try_wait_parity_for(bar: u32, parity: u32, ns: u32) -> bool {
        let out: u32;
        ptx!(
            "{{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [{1}], {2}, {3}; \
             selp.b32 {0}, 1, 0, p; }}",
            out(reg32) out, in(reg32) bar, in(reg32) parity, in(reg32) ns
        );
        out != 0
    }
    /// A loop of [`try_wait_parity`] that waits until the phase of that parity has completed.
    ///
    /// PTX has no instruction that blocks without a time limit. With the feature `bounded-waits`, a wait
    /// longer than two seconds traps. On the model this function blocks, and the model finds a deadlock at
    /// once.
    ///
    /// # Safety
    /// As [`test_wait_parity`].
    pub unsafe fn wait_parity(bar: u32, parity: u32) {
        trace!({
            let watchdog = Watchdog::new();
            // SAFETY: the caller's contract.
            while !unsafe { try_wait_parity(bar, parity) } {
                watchdog.check();
            }
        } is Wait, crate::trace::own(bar), parity);
    }
    /// A loop of `mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64`: as [`wait_parity`], with
    /// acquire at cluster scope: it pairs with [`arrive_remote_release_cluster`]. PTX 8.0.
    ///
    /// # Safety
    /// As [`test_wait_parity`].
    pub unsafe fn wait_parity_cluster(bar: u32, parity: u32) {
        trace!({
            let watchdog = Watchdog::new();
            loop {
                let out: u32;
                ptx!(
                    "{{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [{1}], {2}; \
                     selp.b32 {0}, 1, 0, p; }}",
                    out(reg32) out, in(reg32) bar, in(reg32) parity
                );
                if out != 0 {
                    break;
                }
                watchdog.check();
            }
        } is Wait, crate::trace::own(bar), parity);
    }
    /// `mbarrier.pending_count.b64`: the number of arrivals that were pending when `token` was made.
    pub fn pending_count(token: u64) -> u32 {
        let out: u32;
        ptx_pure!("mbarrier.pending_count.b64 {}, {};", out(reg32) out, in(reg64) token);
        out
    }
    /// `cp.async.mbarrier.arrive.noinc.shared::cta.b64`: arrives when all earlier [`crate::cp_async`]
    /// copies of this thread have completed. It is one of the expected arrivals.
    ///
    /// # Safety
    /// `bar` is an initialised mbarrier whose phase still expects an arrival of this thread.
    pub unsafe fn cp_async_arrive_noinc(bar: u32) {
        ptx!("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [{}];", in(reg32) bar)
    }
}
