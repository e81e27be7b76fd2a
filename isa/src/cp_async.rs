//! The older asynchronous copy, thread by thread, in the generic proxy.
//!
//! PTX manual: *Data Movement*, `cp.async`. PTX 7.0, sm_80. Its groups belong to the issuing thread
//! and are not those of [`crate::cp_async_bulk`]; completion can also be told to an mbarrier:
//! [`crate::mbarrier::cp_async_arrive_noinc`].

ops! { cp_async;
    /// `cp.async.cg.shared.global [dst], [src], 16;`: 16 bytes, past L1.
    ///
    /// # Safety
    /// `src` and `dst` are 16-byte aligned and have 16 bytes; nobody uses those at `dst` before the
    /// copy's completion was waited for.
    pub unsafe fn copy_16(dst: u32, src: *const u8) {
        ptx!("cp.async.cg.shared.global [{}], [{}], 16;", in(reg32) dst, in(reg64) src)
    }
    /// `cp.async.cg.shared.global [dst], [src], 16, bytes;`: reads `bytes` bytes, from 0 to 16, and
    /// writes 16: what is not read is zero (CUTLASS `SM80_CP_ASYNC_CACHEGLOBAL_ZFILL`). The zeros are
    /// the copy's own writes, so what tells of its completion tells of them too.
    ///
    /// # Safety
    /// As [`copy_16`], but only `bytes` bytes need be at `src`; `bytes` is at most 16.
    pub unsafe fn copy_16_zfill(dst: u32, src: *const u8, bytes: u32) {
        ptx!(
            "cp.async.cg.shared.global [{}], [{}], 16, {};",
            in(reg32) dst, in(reg64) src, in(reg32) bytes
        )
    }
    /// `cp.async.commit_group;`: closes the group of this thread's copies since the last one.
    pub fn commit_group() {
        ptx!("cp.async.commit_group;")
    }
    /// `cp.async.wait_group N;`: waits until at most `N` of this thread's groups are pending.
    pub fn wait_group<const N: u32>() {
        ptx!("cp.async.wait_group {};", const N)
    }
}
