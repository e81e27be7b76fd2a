//! Block scales: a factor for each 32 elements of a row along K (`.kind::mxf8f6f4`, MXFP8).
//!
//! The factors are ue8m0: a byte `x` stands for 2^(x - 127), and 255 for NaN. They lie in tensor memory, and [`cp_32x128b_warpx4`]
//! brings them there. 128 rows of an operand take four columns. Lane `l` of each 32 lanes has the rows `l`, `32 + l`,
//! `64 + l` and `96 + l` in the columns 0 to 3; the bytes 0 to 3 of a word are four steps along K. In shared memory that is
//! 32 rows of 16 bytes. (CUTLASS `Sm1xxBlockScaledBasicChunk<32>`, `UMMA::tmem_sf_frg`.)
//!
//! PTX manual: *TensorCore 5th Generation Family Instructions*, "Block Scaling" and `tcgen05.cp`. The instruction
//! descriptor of `.kind::mxf8f6f4`:
//!
//! ```text
//! bits 1-0, 2   sparsity            0
//! bits 5-4      byte of the factors of B
//! bits 9-7      type of A           0 e4m3, 1 e5m2
//! bits 12-10    type of B           as A's
//! bits 13, 14   negate A, B         0
//! bits 15, 16   A, B is MN-major    0 is K-major
//! bits 22-17    N / 8
//! bit  23       type of the factors 1 ue8m0
//! bits 28-24    M / 16
//! bits 30-29    byte of the factors of A
//! bit  31       extent along K      0 is 32
//! ```

use super::kind::{KindF8f6f4, Operand};

/// The instruction descriptor of a multiplication with block scales, of `m` x `n`, with A of elements `A` and B of elements
/// `B`, both K-major. `byte` is that of the factors of both in each word, from 0 to 3. (CUTLASS
/// `UMMA::make_instr_desc_block_scaled`.)
///
/// `m` is 128, and `n` a multiple of 16 from 16 to 256.
#[inline(always)]
#[must_use]
pub const fn instruction_block_scale<
    A: Operand<Kind = KindF8f6f4>,
    B: Operand<Kind = KindF8f6f4>,
>(
    m: u32,
    n: u32,
    byte: u32,
) -> u32 {
    assert!(m == 128, "M of a multiplication by one CTA is 128 here");
    assert!(n >= 16 && n <= 256 && n.is_multiple_of(16), "N is a multiple of 16 from 16 to 256");
    assert!(byte < 4, "a word has four factors");
    byte << 4 | A::CODE << 7 | B::CODE << 10 | (n / 8) << 17 | 1 << 23 | (m / 16) << 24 | byte << 29
}

ops! { tcgen05;
    /// `tcgen05.cp.cta_group::1.32x128b.warpx4 [taddr], from;`: copies 32 rows of 16 bytes of shared memory to four columns of
    /// tensor memory, into each 32 lanes. The thread does not wait for it: see [`commit`](super::commit). Multiplications
    /// that the same thread issues before and behind it are in order with it. (CUTLASS `SM100_UTCCP_4x32dp128bit_1cta`.)
    ///
    /// `from` is a descriptor ([`shared`](super::shared)) without a swizzle; its stride leads from 8 rows to the next 8.
    ///
    /// # Safety
    /// As [`mma_f16`](super::mma_f16): the columns are allocated, and the memory is not written until a commit has completed.
    pub unsafe fn cp_32x128b_warpx4(taddr: u32, from: u64) {
        ptx!("tcgen05.cp.cta_group::1.32x128b.warpx4 [{}], {};", in(reg32) taddr, in(reg64) from)
    }
    /// `tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X [d], a, b, idesc, [sfa], [sfb], p;`: as
    /// [`mma_f16`](super::mma_f16), of e4m3 and e5m2, 32 elements along K. The rows of A and B are multiplied with their
    /// factors at the columns `sfa` and `sfb`. `idesc` is an [`instruction_block_scale`]. (CUTLASS `SM100_MMA_MXF8F6F4_SS`.)
    ///
    /// # Safety
    /// As [`mma_f16`](super::mma_f16), also of the columns with the factors.
    pub unsafe fn mma_mxf8f6f4_block_scale(
        d: u32, a: u64, b: u64, idesc: u32, sfa: u32, sfb: u32, scale_d: bool,
    ) {
        trace!(Mma);
        ptx!(
            "{{ .reg .pred p; setp.ne.b32 p, {scale}, 0; \
             tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X [{d}], {a}, {b}, {idesc}, [{sfa}], [{sfb}], p; }}",
            d = in(reg32) d, a = in(reg64) a, b = in(reg64) b, idesc = in(reg32) idesc,
            sfa = in(reg32) sfa, sfb = in(reg32) sfb, scale = in(reg32) u32::from(scale_d)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use float8::{F8E4M3, F8E5M2};

    /// The manual's table, field by field: first bit, last bit, value.
    #[test]
    fn fields_are_where_the_manual_says() {
        for n in (16..=256).step_by(16) {
            for byte in 0..4 {
                let d = instruction_block_scale::<F8E4M3, F8E5M2>(128, n, byte);
                let bits = |first: u32, last: u32| d >> first & ((1 << (last - first + 1)) - 1);
                assert_eq!((bits(0, 3), bits(6, 6), bits(13, 16), bits(31, 31)), (0, 0, 0, 0));
                assert_eq!((bits(4, 5), bits(29, 30)), (byte, byte), "bytes of the factors");
                assert_eq!((bits(7, 9), bits(10, 12)), (0, 1), "types of A and B");
                assert_eq!((bits(17, 22), bits(23, 23), bits(24, 28)), (n / 8, 1, 8));
            }
        }
    }
}
