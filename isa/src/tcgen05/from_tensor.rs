//! Multiplications with A in tensor memory (CUTLASS `SM100_MMA_..._TS`).
//!
//! A takes 8 columns for each multiplication: row `i` of it is lane `i`, and a column has the 32 bits along K that follow those
//! of the column before, the first element in the low bits. So [`st_32x32b_x8`](super::st_32x32b_x8) stores a row of each thread.
//! A is K-major. Of a pair (`_2sm`), each CTA has its 128 rows in its own tensor memory, at the same columns.
//!
//! Who writes A is known to have finished before the multiplication is issued: after stores, [`wait_st`](super::wait_st),
//! [`fence_before_thread_sync`](super::fence_before_thread_sync), a barrier, and
//! [`fence_after_thread_sync`](super::fence_after_thread_sync) by the thread that multiplies. A copy ([`super::cp_128x256b`]) by the
//! same thread is in order with it. A may be written again when a [`commit`](super::commit) has completed.
//!
//! PTX manual: *TensorCore 5th Generation Family Instructions*, `tcgen05.mma`, "Packing formats for matrices in Tensor Memory".

ops! { tcgen05;
    /// `tcgen05.mma.cta_group::1.kind::f16 [d], [a], b, idesc, p;`: as [`mma_f16`](super::mma_f16), with A at the columns `a` of tensor
    /// memory. (CUTLASS `SM100_MMA_F16BF16_TS`.)
    ///
    /// # Safety
    /// As [`mma_f16`](super::mma_f16). The eight columns at `a` are allocated, and nobody writes them until a
    /// [`commit`](super::commit) of this thread has completed.
    pub unsafe fn mma_f16_ts(d: u32, a: u32, b: u64, idesc: u32, scale_d: bool) {
        trace!(Mma);
        ptx!(
            "{{ .reg .pred p; setp.ne.b32 p, {scale}, 0; \
             tcgen05.mma.cta_group::1.kind::f16 [{d}], [{a}], {b}, {idesc}, p; }}",
            d = in(reg32) d, a = in(reg32) a, b = in(reg64) b, idesc = in(reg32) idesc,
            scale = in(reg32) u32::from(scale_d)
        )
    }
    /// `tcgen05.mma.cta_group::1.kind::tf32 [d], [a], b, idesc, p;`: as [`mma_tf32`](super::mma_tf32), with A at the columns `a` of tensor
    /// memory. (CUTLASS `SM100_MMA_TF32_TS`.)
    ///
    /// # Safety
    /// As [`mma_f16_ts`].
    pub unsafe fn mma_tf32_ts(d: u32, a: u32, b: u64, idesc: u32, scale_d: bool) {
        trace!(Mma);
        ptx!(
            "{{ .reg .pred p; setp.ne.b32 p, {scale}, 0; \
             tcgen05.mma.cta_group::1.kind::tf32 [{d}], [{a}], {b}, {idesc}, p; }}",
            d = in(reg32) d, a = in(reg32) a, b = in(reg64) b, idesc = in(reg32) idesc,
            scale = in(reg32) u32::from(scale_d)
        )
    }
    /// `tcgen05.mma.cta_group::1.kind::f8f6f4 [d], [a], b, idesc, p;`: as [`mma_f8f6f4`](super::mma_f8f6f4), with A at the columns `a` of tensor
    /// memory. (CUTLASS `SM100_MMA_F8F6F4_TS`.)
    ///
    /// # Safety
    /// As [`mma_f16_ts`].
    pub unsafe fn mma_f8f6f4_ts(d: u32, a: u32, b: u64, idesc: u32, scale_d: bool) {
        trace!(Mma);
        ptx!(
            "{{ .reg .pred p; setp.ne.b32 p, {scale}, 0; \
             tcgen05.mma.cta_group::1.kind::f8f6f4 [{d}], [{a}], {b}, {idesc}, p; }}",
            d = in(reg32) d, a = in(reg32) a, b = in(reg64) b, idesc = in(reg32) idesc,
            scale = in(reg32) u32::from(scale_d)
        )
    }
    /// `tcgen05.mma.cta_group::1.kind::i8 [d], [a], b, idesc, p;`: as [`mma_i8`](super::mma_i8), with A at the columns `a` of tensor
    /// memory. (CUTLASS `SM100_MMA_S8_TS`.)
    ///
    /// # Safety
    /// As [`mma_f16_ts`].
    pub unsafe fn mma_i8_ts(d: u32, a: u32, b: u64, idesc: u32, scale_d: bool) {
        trace!(Mma);
        ptx!(
            "{{ .reg .pred p; setp.ne.b32 p, {scale}, 0; \
             tcgen05.mma.cta_group::1.kind::i8 [{d}], [{a}], {b}, {idesc}, p; }}",
            d = in(reg32) d, a = in(reg32) a, b = in(reg64) b, idesc = in(reg32) idesc,
            scale = in(reg32) u32::from(scale_d)
        )
    }
    /// `tcgen05.mma.cta_group::2.kind::f16 [d], [a], b, idesc, p;`: as [`mma_f16_2sm`](super::mma_f16_2sm): each CTA
    /// has its 128 rows of A at the columns `a` of its own tensor memory.
    /// (CUTLASS `SM100_MMA_F16BF16_2x1SM_TS`.)
    ///
    /// # Safety
    /// As [`mma_f16_2sm`](super::mma_f16_2sm). The eight columns at `a` are allocated in both CTAs, and nobody writes them until a
    /// [`commit`](super::commit_2sm) of this thread has completed.
    pub unsafe fn mma_f16_ts_2sm(d: u32, a: u32, b: u64, idesc: u32, scale_d: bool) {
        trace!(Mma);
        ptx!(
            "{{ .reg .pred p; setp.ne.b32 p, {scale}, 0; \
             tcgen05.mma.cta_group::2.kind::f16 [{d}], [{a}], {b}, {idesc}, p; }}",
            d = in(reg32) d, a = in(reg32) a, b = in(reg64) b, idesc = in(reg32) idesc,
            scale = in(reg32) u32::from(scale_d)
        )
    }
    /// `tcgen05.mma.cta_group::2.kind::tf32 [d], [a], b, idesc, p;`: as [`mma_tf32_2sm`](super::mma_tf32_2sm), with A at the
    /// columns `a` of tensor memory.
    /// (CUTLASS `SM100_MMA_TF32_2x1SM_TS`.)
    ///
    /// # Safety
    /// As [`mma_f16_ts_2sm`].
    pub unsafe fn mma_tf32_ts_2sm(d: u32, a: u32, b: u64, idesc: u32, scale_d: bool) {
        trace!(Mma);
        ptx!(
            "{{ .reg .pred p; setp.ne.b32 p, {scale}, 0; \
             tcgen05.mma.cta_group::2.kind::tf32 [{d}], [{a}], {b}, {idesc}, p; }}",
            d = in(reg32) d, a = in(reg32) a, b = in(reg64) b, idesc = in(reg32) idesc,
            scale = in(reg32) u32::from(scale_d)
        )
    }
    /// `tcgen05.mma.cta_group::2.kind::f8f6f4 [d], [a], b, idesc, p;`: as [`mma_f8f6f4_2sm`](super::mma_f8f6f4_2sm), with A at the
    /// columns `a` of tensor memory.
    /// (CUTLASS `SM100_MMA_F8F6F4_2x1SM_TS`.)
    ///
    /// # Safety
    /// As [`mma_f16_ts_2sm`].
    pub unsafe fn mma_f8f6f4_ts_2sm(d: u32, a: u32, b: u64, idesc: u32, scale_d: bool) {
        trace!(Mma);
        ptx!(
            "{{ .reg .pred p; setp.ne.b32 p, {scale}, 0; \
             tcgen05.mma.cta_group::2.kind::f8f6f4 [{d}], [{a}], {b}, {idesc}, p; }}",
            d = in(reg32) d, a = in(reg32) a, b = in(reg64) b, idesc = in(reg32) idesc,
            scale = in(reg32) u32::from(scale_d)
        )
    }
    /// `tcgen05.mma.cta_group::2.kind::i8 [d], [a], b, idesc, p;`: as [`mma_i8_2sm`](super::mma_i8_2sm), with A at the
    /// columns `a` of tensor memory.
    /// (CUTLASS `SM100_MMA_S8_2x1SM_TS`.)
    ///
    /// # Safety
    /// As [`mma_f16_ts_2sm`].
    pub unsafe fn mma_i8_ts_2sm(d: u32, a: u32, b: u64, idesc: u32, scale_d: bool) {
        trace!(Mma);
        ptx!(
            "{{ .reg .pred p; setp.ne.b32 p, {scale}, 0; \
             tcgen05.mma.cta_group::2.kind::i8 [{d}], [{a}], {b}, {idesc}, p; }}",
            d = in(reg32) d, a = in(reg32) a, b = in(reg64) b, idesc = in(reg32) idesc,
            scale = in(reg32) u32::from(scale_d)
        )
    }
    /// `tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X [d], [a], b, idesc, [sfa], [sfb], p;`: as
    /// [`mma_mxf8f6f4_block_scale`](super::mma_mxf8f6f4_block_scale), with A at the columns `a` of tensor memory.
    ///
    /// # Safety
    /// As [`mma_mxf8f6f4_block_scale`](super::mma_mxf8f6f4_block_scale), and of A as [`mma_f16_ts`].
    pub unsafe fn mma_mxf8f6f4_block_scale_ts(
        d: u32, a: u32, b: u64, idesc: u32, sfa: u32, sfb: u32, scale_d: bool,
    ) {
        trace!(Mma);
        ptx!(
            "{{ .reg .pred p; setp.ne.b32 p, {scale}, 0; \
             tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X [{d}], [{a}], {b}, {idesc}, [{sfa}], [{sfb}], p; }}",
            d = in(reg32) d, a = in(reg32) a, b = in(reg64) b, idesc = in(reg32) idesc,
            sfa = in(reg32) sfa, sfb = in(reg32) sfb, scale = in(reg32) u32::from(scale_d)
        )
    }
    /// `tcgen05.mma.cta_group::1.kind::mxf4.block_scale.scale_vec::2X [d], [a], b, idesc, [sfa], [sfb], p;`: as
    /// [`mma_mxf4_block_scale`](super::mma_mxf4_block_scale), with A at the columns `a` of tensor memory.
    ///
    /// # Safety
    /// As [`mma_mxf8f6f4_block_scale_ts`].
    pub unsafe fn mma_mxf4_block_scale_ts(
        d: u32, a: u32, b: u64, idesc: u32, sfa: u32, sfb: u32, scale_d: bool,
    ) {
        trace!(Mma);
        ptx!(
            "{{ .reg .pred p; setp.ne.b32 p, {scale}, 0; \
             tcgen05.mma.cta_group::1.kind::mxf4.block_scale.scale_vec::2X [{d}], [{a}], {b}, {idesc}, [{sfa}], [{sfb}], p; }}",
            d = in(reg32) d, a = in(reg32) a, b = in(reg64) b, idesc = in(reg32) idesc,
            sfa = in(reg32) sfa, sfb = in(reg32) sfb, scale = in(reg32) u32::from(scale_d)
        )
    }
    /// `tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X [d], [a], b, idesc, [sfa], [sfb], p;`: as
    /// [`mma_mxf4nvf4_block_scale`](super::mma_mxf4nvf4_block_scale), with A at the columns `a` of tensor memory.
    ///
    /// # Safety
    /// As [`mma_mxf8f6f4_block_scale_ts`].
    pub unsafe fn mma_mxf4nvf4_block_scale_ts(
        d: u32, a: u32, b: u64, idesc: u32, sfa: u32, sfb: u32, scale_d: bool,
    ) {
        trace!(Mma);
        ptx!(
            "{{ .reg .pred p; setp.ne.b32 p, {scale}, 0; \
             tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X [{d}], [{a}], {b}, {idesc}, [{sfa}], [{sfb}], p; }}",
            d = in(reg32) d, a = in(reg32) a, b = in(reg64) b, idesc = in(reg32) idesc,
            sfa = in(reg32) sfa, sfb = in(reg32) sfb, scale = in(reg32) u32::from(scale_d)
        )
    }
    /// `tcgen05.mma.cta_group::2.kind::mxf8f6f4.block_scale.scale_vec::1X [d], [a], b, idesc, [sfa], [sfb], p;`: as
    /// [`mma_mxf8f6f4_block_scale_2sm`](super::mma_mxf8f6f4_block_scale_2sm), with A at the columns `a` of tensor memory.
    ///
    /// # Safety
    /// As [`mma_mxf8f6f4_block_scale_2sm`](super::mma_mxf8f6f4_block_scale_2sm), and of A as [`mma_f16_ts_2sm`].
    pub unsafe fn mma_mxf8f6f4_block_scale_ts_2sm(
        d: u32, a: u32, b: u64, idesc: u32, sfa: u32, sfb: u32, scale_d: bool,
    ) {
        trace!(Mma);
        ptx!(
            "{{ .reg .pred p; setp.ne.b32 p, {scale}, 0; \
             tcgen05.mma.cta_group::2.kind::mxf8f6f4.block_scale.scale_vec::1X [{d}], [{a}], {b}, {idesc}, [{sfa}], [{sfb}], p; }}",
            d = in(reg32) d, a = in(reg32) a, b = in(reg64) b, idesc = in(reg32) idesc,
            sfa = in(reg32) sfa, sfb = in(reg32) sfb, scale = in(reg32) u32::from(scale_d)
        )
    }
    /// `tcgen05.mma.cta_group::2.kind::mxf4.block_scale.scale_vec::2X [d], [a], b, idesc, [sfa], [sfb], p;`: as
    /// [`mma_mxf4_block_scale_2sm`](super::mma_mxf4_block_scale_2sm), with A at the columns `a` of tensor memory.
    ///
    /// # Safety
    /// As [`mma_mxf8f6f4_block_scale_ts_2sm`].
    pub unsafe fn mma_mxf4_block_scale_ts_2sm(
        d: u32, a: u32, b: u64, idesc: u32, sfa: u32, sfb: u32, scale_d: bool,
    ) {
        trace!(Mma);
        ptx!(
            "{{ .reg .pred p; setp.ne.b32 p, {scale}, 0; \
             tcgen05.mma.cta_group::2.kind::mxf4.block_scale.scale_vec::2X [{d}], [{a}], {b}, {idesc}, [{sfa}], [{sfb}], p; }}",
            d = in(reg32) d, a = in(reg32) a, b = in(reg64) b, idesc = in(reg32) idesc,
            sfa = in(reg32) sfa, sfb = in(reg32) sfb, scale = in(reg32) u32::from(scale_d)
        )
    }
    /// `tcgen05.mma.cta_group::2.kind::mxf4nvf4.block_scale.scale_vec::4X [d], [a], b, idesc, [sfa], [sfb], p;`: as
    /// [`mma_mxf4nvf4_block_scale_2sm`](super::mma_mxf4nvf4_block_scale_2sm), with A at the columns `a` of tensor memory.
    ///
    /// # Safety
    /// As [`mma_mxf8f6f4_block_scale_ts_2sm`].
    pub unsafe fn mma_mxf4nvf4_block_scale_ts_2sm(
        d: u32, a: u32, b: u64, idesc: u32, sfa: u32, sfb: u32, scale_d: bool,
    ) {
        trace!(Mma);
        ptx!(
            "{{ .reg .pred p; setp.ne.b32 p, {scale}, 0; \
             tcgen05.mma.cta_group::2.kind::mxf4nvf4.block_scale.scale_vec::4X [{d}], [{a}], {b}, {idesc}, [{sfa}], [{sfb}], p; }}",
            d = in(reg32) d, a = in(reg32) a, b = in(reg64) b, idesc = in(reg32) idesc,
            sfa = in(reg32) sfa, sfb = in(reg32) sfb, scale = in(reg32) u32::from(scale_d)
        )
    }
}
