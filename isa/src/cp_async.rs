//! The Ampere asynchronous copy `cp.async`, issued by each thread, in the generic proxy.
//!
//! PTX manual: *Data Movement*, `cp.async`. PTX 7.0, sm_80. Its groups belong to the issuing thread and
//! are separate from those of [`crate::cp_async_bulk`]. A completed copy can also arrive at an mbarrier
//! ([`crate::mbarrier::cp_async_arrive_noinc`]).

ops! { cp_async;
    /// `cp.async.cg.shared.global [dst], [src], 16;`: copies 16 bytes, bypassing L1.
    ///
    /// # Safety
    /// `src` and `dst` are 16-byte aligned and have 16 bytes. No thread uses those at `dst` before a wait
    /// for the copy's completion.
    pub unsafe fn copy_16(dst: u32, src: *const u8) {
        ptx!("cp.async.cg.shared.global [{}], [{}], 16;", in(reg32) dst, in(reg64) src)
    }
    /// `cp.async.cg.shared.global [dst], [src], 16, bytes;`: reads `bytes` bytes, from 0 to 16, and
    /// writes 16 bytes, the rest zeros (CUTLASS `SM80_CP_ASYNC_CACHEGLOBAL_ZFILL`). The copy itself writes
    /// the zeros, so its completion covers them.
    ///
    /// # Safety
    /// As [`copy_16`], but only `bytes` bytes are needed at `src`; `bytes` is at most 16.
    pub unsafe fn copy_16_zfill(dst: u32, src: *const u8, bytes: u32) {
        ptx!(
            "cp.async.cg.shared.global [{}], [{}], 16, {};",
            in(reg32) dst, in(reg64) src, in(reg32) bytes
        )
    }
    /// `cp.async.commit_group;`: puts this thread's copies since the last call into a group.
    pub fn commit_group() {
        ptx!("cp.async.commit_group;")
    }
    /// `cp.async.wait_group N;`: waits until at most `N` of this thread's groups are pending.
    pub fn wait_group<const N: u32>() {
        ptx!("cp.async.wait_group {};", const N)
    }
}
