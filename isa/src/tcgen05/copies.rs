//! `tcgen05.cp`: shared memory to tensor memory.
//!
//! `from` is a descriptor ([`shared`](super::shared)) without a swizzle, of core matrices of 8 rows of 16 bytes. Its stride leads
//! from 8 rows to the next 8, and its leading offset from the first 16 bytes of 8 rows to the second.
//!
//! | shape | rows | bytes of a row | columns | lanes that get row `i` |
//! |---|---|---|---|---|
//! | `.128x256b` | 128 | 32 | 8 | `i` |
//! | `.4x256b` | 4 | 32 | 8 | `32 * i`, plus the address's lane |
//! | `.128x128b` | 128 | 16 | 4 | `i` |
//! | `.64x128b.warpx2::02_13` | 64 | 16 | 4 | `i` and `64 + i` |
//! | `.64x128b.warpx2::01_23` | 64 | 16 | 4 | `i / 32 * 64 + i % 32`, and 32 more |
//! | `.32x128b.warpx4` | 32 | 16 | 4 | `i`, `32 + i`, `64 + i` and `96 + i` |
//!
//! The manual has no figure of `.4x256b`; that row is what CUTLASS's `SM100_UTCCP_4dp256bit_1cta` says.
//!
//! The thread does not wait for a copy: see [`commit`](super::commit). Multiplications that the same thread issues before and
//! behind it are in order with it.
//!
//! By a pair (`_2sm`), one thread copies for both CTAs: each CTA's rows go from its own shared memory to its own tensor memory, at
//! the same addresses. That is how CUTLASS uses `SM100_UTCCP_4x32dp128bit_2cta`; **no chip has confirmed it.**
//!
//! PTX manual: *TensorCore 5th Generation Family Instructions*, `tcgen05.cp`. CUTLASS: `Copy_Traits` of `SM100_UTCCP_*`.

ops! { tcgen05;
    /// `tcgen05.cp.cta_group::1.128x256b [taddr], from;` (CUTLASS `SM100_UTCCP_128dp256bit_1cta`.)
    ///
    /// # Safety
    /// As [`mma_f16`](super::mma_f16): the columns are allocated, and the memory is not written until a commit has completed.
    pub unsafe fn cp_128x256b(taddr: u32, from: u64) {
        ptx!("tcgen05.cp.cta_group::1.128x256b [{}], {};", in(reg32) taddr, in(reg64) from)
    }
    /// `tcgen05.cp.cta_group::1.4x256b [taddr], from;` (CUTLASS `SM100_UTCCP_4dp256bit_1cta`.)
    ///
    /// # Safety
    /// As [`cp_128x256b`].
    pub unsafe fn cp_4x256b(taddr: u32, from: u64) {
        ptx!("tcgen05.cp.cta_group::1.4x256b [{}], {};", in(reg32) taddr, in(reg64) from)
    }
    /// `tcgen05.cp.cta_group::1.128x128b [taddr], from;` (CUTLASS `SM100_UTCCP_128dp128bit_1cta`.)
    ///
    /// # Safety
    /// As [`cp_128x256b`].
    pub unsafe fn cp_128x128b(taddr: u32, from: u64) {
        ptx!("tcgen05.cp.cta_group::1.128x128b [{}], {};", in(reg32) taddr, in(reg64) from)
    }
    /// `tcgen05.cp.cta_group::1.64x128b.warpx2::02_13 [taddr], from;` (CUTLASS `SM100_UTCCP_2x64dp128bitlw0213_1cta`.)
    ///
    /// # Safety
    /// As [`cp_128x256b`].
    pub unsafe fn cp_64x128b_warpx2_02_13(taddr: u32, from: u64) {
        ptx!("tcgen05.cp.cta_group::1.64x128b.warpx2::02_13 [{}], {};", in(reg32) taddr, in(reg64) from)
    }
    /// `tcgen05.cp.cta_group::1.64x128b.warpx2::01_23 [taddr], from;` (CUTLASS `SM100_UTCCP_2x64dp128bitlw0123_1cta`.)
    ///
    /// # Safety
    /// As [`cp_128x256b`].
    pub unsafe fn cp_64x128b_warpx2_01_23(taddr: u32, from: u64) {
        ptx!("tcgen05.cp.cta_group::1.64x128b.warpx2::01_23 [{}], {};", in(reg32) taddr, in(reg64) from)
    }
    /// `tcgen05.cp.cta_group::1.32x128b.warpx4 [taddr], from;` (CUTLASS `SM100_UTCCP_4x32dp128bit_1cta`.)
    ///
    /// # Safety
    /// As [`cp_128x256b`].
    pub unsafe fn cp_32x128b_warpx4(taddr: u32, from: u64) {
        ptx!("tcgen05.cp.cta_group::1.32x128b.warpx4 [{}], {};", in(reg32) taddr, in(reg64) from)
    }
    /// `tcgen05.cp.cta_group::2.128x256b [taddr], from;`: as [`cp_128x256b`], in both CTAs of a pair. (CUTLASS `SM100_UTCCP_128dp256bit_2cta`.)
    ///
    /// # Safety
    /// As [`cp_128x256b`], in both CTAs. The peer CTA runs, and does not exit before it has completed.
    pub unsafe fn cp_128x256b_2sm(taddr: u32, from: u64) {
        ptx!("tcgen05.cp.cta_group::2.128x256b [{}], {};", in(reg32) taddr, in(reg64) from)
    }
    /// `tcgen05.cp.cta_group::2.4x256b [taddr], from;` (CUTLASS `SM100_UTCCP_4dp256bit_2cta`.)
    ///
    /// # Safety
    /// As [`cp_128x256b_2sm`].
    pub unsafe fn cp_4x256b_2sm(taddr: u32, from: u64) {
        ptx!("tcgen05.cp.cta_group::2.4x256b [{}], {};", in(reg32) taddr, in(reg64) from)
    }
    /// `tcgen05.cp.cta_group::2.128x128b [taddr], from;` (CUTLASS `SM100_UTCCP_128dp128bit_2cta`.)
    ///
    /// # Safety
    /// As [`cp_128x256b_2sm`].
    pub unsafe fn cp_128x128b_2sm(taddr: u32, from: u64) {
        ptx!("tcgen05.cp.cta_group::2.128x128b [{}], {};", in(reg32) taddr, in(reg64) from)
    }
    /// `tcgen05.cp.cta_group::2.64x128b.warpx2::02_13 [taddr], from;` (CUTLASS `SM100_UTCCP_2x64dp128bitlw0213_2cta`.)
    ///
    /// # Safety
    /// As [`cp_128x256b_2sm`].
    pub unsafe fn cp_64x128b_warpx2_02_13_2sm(taddr: u32, from: u64) {
        ptx!("tcgen05.cp.cta_group::2.64x128b.warpx2::02_13 [{}], {};", in(reg32) taddr, in(reg64) from)
    }
    /// `tcgen05.cp.cta_group::2.64x128b.warpx2::01_23 [taddr], from;` (CUTLASS `SM100_UTCCP_2x64dp128bitlw0123_2cta`.)
    ///
    /// # Safety
    /// As [`cp_128x256b_2sm`].
    pub unsafe fn cp_64x128b_warpx2_01_23_2sm(taddr: u32, from: u64) {
        ptx!("tcgen05.cp.cta_group::2.64x128b.warpx2::01_23 [{}], {};", in(reg32) taddr, in(reg64) from)
    }
    /// `tcgen05.cp.cta_group::2.32x128b.warpx4 [taddr], from;` (CUTLASS `SM100_UTCCP_4x32dp128bit_2cta`.)
    ///
    /// # Safety
    /// As [`cp_128x256b_2sm`].
    pub unsafe fn cp_32x128b_warpx4_2sm(taddr: u32, from: u64) {
        ptx!("tcgen05.cp.cta_group::2.32x128b.warpx4 [{}], {};", in(reg32) taddr, in(reg64) from)
    }
}
