//! Warp-wide operations: lane and warp index, election, shuffles, votes.
//!
//! PTX manual: *Parallel Synchronization and Communication* (`bar.warp.sync`, `elect.sync`,
//! `vote.sync`) and *Data Movement* (`shfl.sync`). All of them use the full member mask, so all 32 lanes
//! must execute them, convergent. This is the only reason why they are `unsafe`.

ops! { warp;
    /// `%laneid`: the lane's index in its warp, 0 to 31.
    pub fn lane_id() -> u32 {
        let out: u32;
        ptx_pure!("mov.u32 {}, %laneid;", out(reg32) out);
        out
    }
    /// The warp's index in its CTA, `thread_idx_x / 32`. A shuffle takes it from lane 0, so that ptxas
    /// knows that it is uniform and branches on it need no divergence handling. (CUTLASS
    /// `canonical_warp_idx_sync`.)
    ///
    /// # Safety
    /// All 32 lanes execute it, convergent.
    pub unsafe fn warp_id() -> u32 {
        // SAFETY: the caller's contract.
        unsafe { shfl_idx(crate::thread::thread_idx_x() / 32, 0) }
    }
    /// `bar.warp.sync mask;`: waits for the lanes in `mask` and orders their memory accesses.
    ///
    /// # Safety
    /// The calling lane is in `mask`, and every lane of `mask` executes it with the same mask.
    pub unsafe fn sync_warp(mask: u32) {
        ptx!("bar.warp.sync {};", in(reg32) mask)
    }
    /// `elect.sync _|p, 0xffffffff;`: true in one lane of the warp, the same one each time.
    /// PTX 8.0, sm_90. (CUTLASS `elect_one_sync`.)
    ///
    /// # Safety
    /// All 32 lanes execute it, convergent.
    pub unsafe fn elect_one() -> bool {
        let out: u32;
        ptx!(
            "{{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.b32 {}, 1, 0, p; }}",
            out(reg32) out
        );
        out != 0
    }
    /// `shfl.sync.idx.b32`: returns `v` of lane `lane`.
    ///
    /// # Safety
    /// All 32 lanes execute it, convergent.
    pub unsafe fn shfl_idx(v: u32, lane: u32) -> u32 {
        let out: u32;
        ptx!(
            "shfl.sync.idx.b32 {}, {}, {}, 0x1f, 0xffffffff;",
            out(reg32) out, in(reg32) v, in(reg32) lane
        );
        out
    }
    /// `shfl.sync.bfly.b32`: returns `v` of the lane with index `lane_id ^ mask`.
    ///
    /// # Safety
    /// All 32 lanes execute it, convergent.
    pub unsafe fn shfl_xor(v: u32, mask: u32) -> u32 {
        let out: u32;
        ptx!(
            "shfl.sync.bfly.b32 {}, {}, {}, 0x1f, 0xffffffff;",
            out(reg32) out, in(reg32) v, in(reg32) mask
        );
        out
    }
    /// `shfl.sync.up.b32`: returns `v` of lane `lane_id - delta`. The lowest `delta` lanes get their own.
    ///
    /// # Safety
    /// All 32 lanes execute it, convergent.
    pub unsafe fn shfl_up(v: u32, delta: u32) -> u32 {
        let out: u32;
        ptx!(
            "shfl.sync.up.b32 {}, {}, {}, 0, 0xffffffff;",
            out(reg32) out, in(reg32) v, in(reg32) delta
        );
        out
    }
    /// `shfl.sync.down.b32`: returns `v` of lane `lane_id + delta`. The highest `delta` lanes get their own.
    ///
    /// # Safety
    /// All 32 lanes execute it, convergent.
    pub unsafe fn shfl_down(v: u32, delta: u32) -> u32 {
        let out: u32;
        ptx!(
            "shfl.sync.down.b32 {}, {}, {}, 0x1f, 0xffffffff;",
            out(reg32) out, in(reg32) v, in(reg32) delta
        );
        out
    }
    /// `vote.sync.any.pred`: returns whether `p` holds in any lane.
    ///
    /// # Safety
    /// All 32 lanes execute it, convergent.
    pub unsafe fn vote_any(p: bool) -> bool {
        let out: u32;
        ptx!(
            "{{ .reg .pred p, q; setp.ne.b32 p, {1}, 0; vote.sync.any.pred q, p, 0xffffffff; \
             selp.b32 {0}, 1, 0, q; }}",
            out(reg32) out, in(reg32) u32::from(p)
        );
        out != 0
    }
    /// `vote.sync.all.pred`: returns whether `p` holds in all lanes.
    ///
    /// # Safety
    /// All 32 lanes execute it, convergent.
    pub unsafe fn vote_all(p: bool) -> bool {
        let out: u32;
        ptx!(
            "{{ .reg .pred p, q; setp.ne.b32 p, {1}, 0; vote.sync.all.pred q, p, 0xffffffff; \
             selp.b32 {0}, 1, 0, q; }}",
            out(reg32) out, in(reg32) u32::from(p)
        );
        out != 0
    }
    /// `vote.sync.ballot.b32`: returns a mask; bit i is `p` of lane i.
    ///
    /// # Safety
    /// All 32 lanes execute it, convergent.
    pub unsafe fn ballot(p: bool) -> u32 {
        let out: u32;
        ptx!(
            "{{ .reg .pred p; setp.ne.b32 p, {1}, 0; vote.sync.ballot.b32 {0}, p, 0xffffffff; }}",
            out(reg32) out, in(reg32) u32::from(p)
        );
        out
    }
    /// `redux.sync.max.u32`: returns the largest `v` of the warp's lanes. PTX 7.0, sm_80.
    ///
    /// # Safety
    /// All 32 lanes execute it, convergent.
    pub unsafe fn redux_max_u32(v: u32) -> u32 {
        let out: u32;
        ptx!("redux.sync.max.u32 {}, {}, 0xffffffff;", out(reg32) out, in(reg32) v);
        out
    }
}
