//! Warp-wide operations: identity, election, shuffles, votes.
//!
//! PTX manual: *Parallel Synchronization and Communication* (`bar.warp.sync`, `elect.sync`,
//! `vote.sync`) and *Data Movement* (`shfl.sync`). All use the full member mask, and so are
//! collective: all 32 lanes execute them, convergent. They are `unsafe` for that alone.

ops! { warp;
    /// `%laneid`: 0 to 31.
    pub fn lane_id() -> u32 {
        let out: u32;
        ptx_pure!("mov.u32 {}, %laneid;", out(reg32) out);
        out
    }
    /// The warp's index in its CTA, `thread_idx_x / 32`, taken from lane 0 with a shuffle so that
    /// ptxas sees it as uniform: branches on it need no divergence handling.
    ///
    /// # Safety
    /// All 32 lanes execute it, convergent.
    pub unsafe fn warp_id() -> u32 {
        // SAFETY: the caller's contract.
        unsafe { shfl_idx(crate::thread::thread_idx_x() / 32, 0) }
    }
    /// `bar.warp.sync mask;`: waits for the lanes in `mask`, and orders their memory accesses.
    ///
    /// # Safety
    /// The calling lane is in `mask`, and every lane of `mask` executes it with the same mask.
    pub unsafe fn sync_warp(mask: u32) {
        ptx!("bar.warp.sync {};", in(reg32) mask)
    }
    /// `elect.sync _|p, 0xffffffff;`: true in one lane of the warp, the same one each time.
    /// PTX 8.0, sm_90.
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
    /// `shfl.sync.idx.b32`: `v` of lane `lane`.
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
    /// `shfl.sync.bfly.b32`: `v` of the lane whose number differs in the bits of `mask`.
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
    /// `shfl.sync.up.b32`: `v` of the lane `delta` below; the lowest lanes keep their own.
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
    /// `shfl.sync.down.b32`: `v` of the lane `delta` above; the highest lanes keep their own.
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
    /// `vote.sync.any.pred`: whether `p` holds in some lane.
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
    /// `vote.sync.all.pred`: whether `p` holds in all lanes.
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
    /// `vote.sync.ballot.b32`: bit i is `p` of lane i.
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
}
