//! Named barriers: sixteen hardware barriers per CTA, without memory, phase or transactions.
//!
//! PTX manual: *Parallel Synchronization and Communication*, `barrier.cta`. PTX 7.8.
//!
//! `threads` is the number of threads that `arrive` plus the number that `sync`, a multiple of 32.
//! [`crate::thread::sync_threads`] uses barrier 0. `arrive` does not wait. The plain forms are `.aligned`:
//! all threads of the warp execute the same barrier instruction, convergent. The `_unaligned` forms count
//! the warp, as 32 threads, when each of its threads that has not returned has arrived.

ops! { barrier;
    /// `barrier.cta.sync.aligned id, threads;`: arrives, waits until `threads` have arrived, and
    /// orders the memory accesses of them all.
    ///
    /// # Safety
    /// The warp is convergent. All participants of barrier `id` (below 16) pass the same `threads`, a
    /// multiple of 32, and that many threads participate.
    pub unsafe fn sync(id: u32, threads: u32) {
        trace!({
            ptx!("barrier.cta.sync.aligned {}, {};", in(reg32) id, in(reg32) threads);
        } is Sync, id);
    }
    /// `barrier.cta.arrive.aligned id, threads;`: arrives without waiting.
    ///
    /// # Safety
    /// As [`sync`]. This warp must not arrive again before the barrier has completed.
    pub unsafe fn arrive(id: u32, threads: u32) {
        ptx!("barrier.cta.arrive.aligned {}, {};", in(reg32) id, in(reg32) threads)
    }
    /// `barrier.cta.sync id, threads;`: [`sync`] for a warp that may be divergent.
    ///
    /// # Safety
    /// As [`sync`], but the warp may be divergent.
    pub unsafe fn sync_unaligned(id: u32, threads: u32) {
        ptx!("barrier.cta.sync {}, {};", in(reg32) id, in(reg32) threads)
    }
    /// `barrier.cta.arrive id, threads;`: [`arrive`] for a warp that may be divergent.
    ///
    /// # Safety
    /// As [`arrive`], but the warp may be divergent.
    pub unsafe fn arrive_unaligned(id: u32, threads: u32) {
        ptx!("barrier.cta.arrive {}, {};", in(reg32) id, in(reg32) threads)
    }
    /// `barrier.cta.red.popc.aligned.u32`: as [`sync`], and returns the number of threads where `p` holds.
    ///
    /// # Safety
    /// As [`sync`].
    pub unsafe fn red_popc(id: u32, threads: u32, p: bool) -> u32 {
        let out: u32;
        ptx!(
            "{{ .reg .pred p; setp.ne.b32 p, {3}, 0; \
             barrier.cta.red.popc.aligned.u32 {0}, {1}, {2}, p; }}",
            out(reg32) out, in(reg32) id, in(reg32) threads, in(reg32) u32::from(p)
        );
        out
    }
    /// `barrier.cta.red.and.aligned.pred`: as [`sync`], and returns whether `p` holds in all threads.
    ///
    /// # Safety
    /// As [`sync`].
    pub unsafe fn red_and(id: u32, threads: u32, p: bool) -> bool {
        let out: u32;
        ptx!(
            "{{ .reg .pred p, q; setp.ne.b32 p, {3}, 0; \
             barrier.cta.red.and.aligned.pred q, {1}, {2}, p; selp.b32 {0}, 1, 0, q; }}",
            out(reg32) out, in(reg32) id, in(reg32) threads, in(reg32) u32::from(p)
        );
        out != 0
    }
    /// `barrier.cta.red.or.aligned.pred`: as [`sync`], and returns whether `p` holds in any thread.
    ///
    /// # Safety
    /// As [`sync`].
    pub unsafe fn red_or(id: u32, threads: u32, p: bool) -> bool {
        let out: u32;
        ptx!(
            "{{ .reg .pred p, q; setp.ne.b32 p, {3}, 0; \
             barrier.cta.red.or.aligned.pred q, {1}, {2}, p; selp.b32 {0}, 1, 0, q; }}",
            out(reg32) out, in(reg32) id, in(reg32) threads, in(reg32) u32::from(p)
        );
        out != 0
    }
}
