//! Block scales: a factor for each block of a row along K (MXFP8, MXFP4 and NVFP4).
//!
//! | format | kind | elements | factors | elements of a block | factors of a row in one instruction |
//! |---|---|---|---|---|---|
//! | MXFP8 | [`KindMxf8f6f4`] | e4m3, e5m2 | [`Ue8m0`] | 32 | 1 |
//! | MXFP4 | [`KindMxf4`] | [`E2m1x2`] | [`Ue8m0`] | 32 | 2 |
//! | NVFP4 | [`KindMxf4nvf4`] | [`E2m1x2`] | [`Ue4m3`] | 16 | 4 |
//!
//! An instruction takes 32 bytes of each row along K: 32 elements of 8 bits, or 64 of 4 bits, which are packed.
//!
//! The factors lie in tensor memory, and [`cp_32x128b_warpx4`](super::cp_32x128b_warpx4) brings them there. 128 rows of an operand take four columns.
//! Lane `l` of each 32 lanes has the rows `l`, `32 + l`, `64 + l` and `96 + l` in the columns 0 to 3; the bytes 0 to 3 of a
//! word are four factors along K. In shared memory that is 32 rows of 16 bytes. (CUTLASS `Sm1xxBlockScaledBasicChunk`,
//! `UMMA::tmem_sf_frg`.)
//!
//! By a pair of CTAs, each has the factors of its 128 rows of A in its own tensor memory. The factors of all N rows of B are in
//! the tensor memory of both, although each CTA has half of these rows in its shared memory. (CUTLASS: the `MMA_ScaleFactor` of
//! `SM100_MMA_MXF8F6F4_2x1SM_SS`.)
//!
//! PTX manual: *TensorCore 5th Generation Family Instructions*, "Block Scaling" and `tcgen05.cp`. The instruction
//! descriptor of `.kind::mxf8f6f4`, `.kind::mxf4` and `.kind::mxf4nvf4`:
//!
//! ```text
//! bits 1-0, 2   sparsity            0
//! bits 5-4      first byte of the factors of B
//! bits 9-7      type of A           of kind mxf8f6f4: 0 e4m3, 1 e5m2; of the others: 1 e2m1
//! bits 12-10    type of B           as A's
//! bits 13, 14   negate A, B         0
//! bits 15, 16   A, B is MN-major    0 is K-major; those of 4 bits are K-major
//! bits 22-17    N / 8
//! bit  23       type of the factors 0 ue4m3, 1 ue8m0
//! bits 28-24    M / 16
//! bits 30-29    first byte of the factors of A
//! bit  31       extent along K      0 is 32 elements, or 64 of 4 bits
//! ```

use crate::E2m1x2;
use float8::{F8E4M3, F8E5M2};

mod sealed {
    pub trait Sealed {}
}
use sealed::Sealed;

/// A type of factors: [`Ue8m0`] or [`Ue4m3`].
pub trait ScaleFactor: Sealed + 'static {
    /// Its code in an instruction descriptor.
    const CODE: u32;
}

/// Factors that are powers of two: a byte `x` stands for 2^(x - 127), and 255 for NaN.
#[derive(Debug)]
pub enum Ue8m0 {}
/// Factors that are e4m3 without a sign: the first bit is 0, and 127 stands for NaN.
#[derive(Debug)]
pub enum Ue4m3 {}

/// A kind of multiplication with block scales: the instruction's `.kind`.
pub trait ScaledKind: Sealed + 'static {
    /// The type of its factors.
    type Factor: ScaleFactor;
    /// Factors of each row in one instruction, and bytes of a word that it takes: its `.scale_vec`.
    const FACTORS: u32;
    /// Issues the multiplication, as [`mma_mxf8f6f4_block_scale`] does.
    ///
    /// # Safety
    /// As [`mma_mxf8f6f4_block_scale`]. `idesc` is of this kind.
    unsafe fn mma(d: u32, a: u64, b: u64, idesc: u32, sfa: u32, sfb: u32, scale_d: bool);
    /// Issues the multiplication by a pair of CTAs, as [`mma_mxf8f6f4_block_scale_2sm`] does.
    ///
    /// # Safety
    /// As [`mma_mxf8f6f4_block_scale_2sm`]. `idesc` is of this kind.
    unsafe fn mma_2sm(d: u32, a: u64, b: u64, idesc: u32, sfa: u32, sfb: u32, scale_d: bool);
}

/// An element type of the operands of a multiplication with factors of type `F`.
#[diagnostic::on_unimplemented(
    message = "`tcgen05.mma` does not multiply `{Self}` with factors of `{F}`",
    label = "not an operand's element, with these factors",
    note = "with `Ue8m0`, A and B are `F8E4M3` or `F8E5M2` each, or `E2m1x2` both; with `Ue4m3`, they are `E2m1x2` both"
)]
pub trait ScaledOperand<F>: Sealed + Copy + 'static {
    /// The kind of the multiplication.
    type Kind: ScaledKind<Factor = F>;
    /// Its code in an instruction descriptor.
    const CODE: u32;
}

macro_rules! scaled {
    ($($(#[$meta:meta])* $kind:ident: $mma:ident $pair:ident by $factor:ty, $factors:literal, $($t:ty = $code:literal),+;)+) => {$(
        $(#[$meta])*
        #[derive(Debug)]
        pub enum $kind {}
        impl Sealed for $kind {}
        impl ScaledKind for $kind {
            type Factor = $factor;
            const FACTORS: u32 = $factors;
            #[crate::device]
            unsafe fn mma(d: u32, a: u64, b: u64, idesc: u32, sfa: u32, sfb: u32, scale_d: bool) {
                // SAFETY: the caller's contract.
                unsafe { $mma(d, a, b, idesc, sfa, sfb, scale_d) }
            }
            #[crate::device]
            unsafe fn mma_2sm(d: u32, a: u64, b: u64, idesc: u32, sfa: u32, sfb: u32, scale_d: bool) {
                // SAFETY: the caller's contract.
                unsafe { $pair(d, a, b, idesc, sfa, sfb, scale_d) }
            }
        }
        $(impl ScaledOperand<$factor> for $t {
            type Kind = $kind;
            const CODE: u32 = $code;
        })+
    )+};
    (sealed $($t:ty)+; factors $($factor:ty = $code:literal)+) => {
        $(impl Sealed for $t {})+
        $(impl Sealed for $factor {}
        impl ScaleFactor for $factor {
            const CODE: u32 = $code;
        })+
    };
}
scaled! { sealed F8E4M3 F8E5M2 E2m1x2; factors Ue4m3 = 0 Ue8m0 = 1 }
scaled! {
    /// `.kind::mxf8f6f4`: of its types e4m3 and e5m2.
    KindMxf8f6f4: mma_mxf8f6f4_block_scale mma_mxf8f6f4_block_scale_2sm by Ue8m0, 1, F8E4M3 = 0, F8E5M2 = 1;
    /// `.kind::mxf4`.
    KindMxf4: mma_mxf4_block_scale mma_mxf4_block_scale_2sm by Ue8m0, 2, E2m1x2 = 1;
    /// `.kind::mxf4nvf4`, with blocks of 16 elements.
    KindMxf4nvf4: mma_mxf4nvf4_block_scale mma_mxf4nvf4_block_scale_2sm by Ue4m3, 4, E2m1x2 = 1;
}

/// The instruction descriptor of a multiplication with block scales of type `F`, of `m` x `n`, with A of elements `A` and B
/// of elements `B`, both K-major. `byte` is that of the first factor of both in each word: a multiple of
/// [`ScaledKind::FACTORS`] below 4. (CUTLASS `UMMA::make_instr_desc_block_scaled`.)
///
/// `m` is 128, or 256 by a pair of CTAs. `n` is a multiple of 16 from 16 to 256, also by a pair: without block scales it would
/// be one of 32 there.
#[inline(always)]
#[must_use]
pub const fn instruction_block_scale<F, A, B>(m: u32, n: u32, byte: u32) -> u32
where
    F: ScaleFactor,
    A: ScaledOperand<F>,
    B: ScaledOperand<F, Kind = A::Kind>,
{
    assert!(m == 128 || m == 256, "M is 128 by one CTA, and 256 by a pair");
    assert!(n >= 16 && n <= 256 && n.is_multiple_of(16), "N is a multiple of 16 from 16 to 256");
    assert!(
        byte < 4 && byte.is_multiple_of(A::Kind::FACTORS),
        "a word has four factors: 1, 2 or 4 of them are those of an instruction"
    );
    byte << 4
        | A::CODE << 7
        | B::CODE << 10
        | (n / 8) << 17
        | F::CODE << 23
        | (m / 16) << 24
        | byte << 29
}

ops! { tcgen05;
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
    /// `tcgen05.mma.cta_group::1.kind::mxf4.block_scale.scale_vec::2X [d], a, b, idesc, [sfa], [sfb], p;`: as
    /// [`mma_mxf8f6f4_block_scale`], of e2m1, 64 elements along K, with two factors of ue8m0 for a row. (CUTLASS
    /// `SM100_MMA_MXF4_SS` with `VS` of 32.)
    ///
    /// # Safety
    /// As [`mma_mxf8f6f4_block_scale`].
    pub unsafe fn mma_mxf4_block_scale(
        d: u32, a: u64, b: u64, idesc: u32, sfa: u32, sfb: u32, scale_d: bool,
    ) {
        trace!(Mma);
        ptx!(
            "{{ .reg .pred p; setp.ne.b32 p, {scale}, 0; \
             tcgen05.mma.cta_group::1.kind::mxf4.block_scale.scale_vec::2X [{d}], {a}, {b}, {idesc}, [{sfa}], [{sfb}], p; }}",
            d = in(reg32) d, a = in(reg64) a, b = in(reg64) b, idesc = in(reg32) idesc,
            sfa = in(reg32) sfa, sfb = in(reg32) sfb, scale = in(reg32) u32::from(scale_d)
        )
    }
    /// `tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X [d], a, b, idesc, [sfa], [sfb], p;`: as
    /// [`mma_mxf8f6f4_block_scale`], of e2m1, 64 elements along K, with four factors of ue4m3 for a row. (CUTLASS
    /// `SM100_MMA_MXF4_SS` with `VS` of 16.)
    ///
    /// # Safety
    /// As [`mma_mxf8f6f4_block_scale`].
    pub unsafe fn mma_mxf4nvf4_block_scale(
        d: u32, a: u64, b: u64, idesc: u32, sfa: u32, sfb: u32, scale_d: bool,
    ) {
        trace!(Mma);
        ptx!(
            "{{ .reg .pred p; setp.ne.b32 p, {scale}, 0; \
             tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X [{d}], {a}, {b}, {idesc}, [{sfa}], [{sfb}], p; }}",
            d = in(reg32) d, a = in(reg64) a, b = in(reg64) b, idesc = in(reg32) idesc,
            sfa = in(reg32) sfa, sfb = in(reg32) sfb, scale = in(reg32) u32::from(scale_d)
        )
    }
    /// `tcgen05.mma.cta_group::2.kind::mxf8f6f4.block_scale.scale_vec::1X [d], a, b, idesc, [sfa], [sfb], p;`: as
    /// [`mma_mxf8f6f4_block_scale`], by a pair: M is 256, and N a multiple of 16 from 16 to 256. The
    /// columns `sfa` and `sfb` are the same in both CTAs. (CUTLASS `SM100_MMA_MXF8F6F4_2x1SM_SS`.)
    ///
    /// # Safety
    /// As [`mma_f16_2sm`](super::mma_f16_2sm), also of the columns with the factors, in both CTAs.
    pub unsafe fn mma_mxf8f6f4_block_scale_2sm(
        d: u32, a: u64, b: u64, idesc: u32, sfa: u32, sfb: u32, scale_d: bool,
    ) {
        trace!(Mma);
        ptx!(
            "{{ .reg .pred p; setp.ne.b32 p, {scale}, 0; \
             tcgen05.mma.cta_group::2.kind::mxf8f6f4.block_scale.scale_vec::1X [{d}], {a}, {b}, {idesc}, [{sfa}], [{sfb}], p; }}",
            d = in(reg32) d, a = in(reg64) a, b = in(reg64) b, idesc = in(reg32) idesc,
            sfa = in(reg32) sfa, sfb = in(reg32) sfb, scale = in(reg32) u32::from(scale_d)
        )
    }
    /// `tcgen05.mma.cta_group::2.kind::mxf4.block_scale.scale_vec::2X [d], a, b, idesc, [sfa], [sfb], p;`: as
    /// [`mma_mxf4_block_scale`], by a pair. (CUTLASS `SM100_MMA_MXF4_2x1SM_SS` with `VS` of 32.)
    ///
    /// # Safety
    /// As [`mma_f16_2sm`](super::mma_f16_2sm), also of the columns with the factors, in both CTAs.
    pub unsafe fn mma_mxf4_block_scale_2sm(
        d: u32, a: u64, b: u64, idesc: u32, sfa: u32, sfb: u32, scale_d: bool,
    ) {
        trace!(Mma);
        ptx!(
            "{{ .reg .pred p; setp.ne.b32 p, {scale}, 0; \
             tcgen05.mma.cta_group::2.kind::mxf4.block_scale.scale_vec::2X [{d}], {a}, {b}, {idesc}, [{sfa}], [{sfb}], p; }}",
            d = in(reg32) d, a = in(reg64) a, b = in(reg64) b, idesc = in(reg32) idesc,
            sfa = in(reg32) sfa, sfb = in(reg32) sfb, scale = in(reg32) u32::from(scale_d)
        )
    }
    /// `tcgen05.mma.cta_group::2.kind::mxf4nvf4.block_scale.scale_vec::4X [d], a, b, idesc, [sfa], [sfb], p;`: as
    /// [`mma_mxf4nvf4_block_scale`], by a pair. (CUTLASS `SM100_MMA_MXF4_2x1SM_SS` with `VS` of 16.)
    ///
    /// # Safety
    /// As [`mma_f16_2sm`](super::mma_f16_2sm), also of the columns with the factors, in both CTAs.
    pub unsafe fn mma_mxf4nvf4_block_scale_2sm(
        d: u32, a: u64, b: u64, idesc: u32, sfa: u32, sfb: u32, scale_d: bool,
    ) {
        trace!(Mma);
        ptx!(
            "{{ .reg .pred p; setp.ne.b32 p, {scale}, 0; \
             tcgen05.mma.cta_group::2.kind::mxf4nvf4.block_scale.scale_vec::4X [{d}], {a}, {b}, {idesc}, [{sfa}], [{sfb}], p; }}",
            d = in(reg32) d, a = in(reg64) a, b = in(reg64) b, idesc = in(reg32) idesc,
            sfa = in(reg32) sfa, sfb = in(reg32) sfb, scale = in(reg32) u32::from(scale_d)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The manual's tables, field by field: first bit, last bit, value.
    #[test]
    fn fields_are_where_the_manual_says() {
        let check = |d: u32, m: u32, n: u32, byte: u32, types: (u32, u32), factors: u32| {
            let bits = |first: u32, last: u32| d >> first & ((1 << (last - first + 1)) - 1);
            assert_eq!((bits(0, 3), bits(6, 6), bits(13, 16), bits(31, 31)), (0, 0, 0, 0));
            assert_eq!((bits(4, 5), bits(29, 30)), (byte, byte), "bytes of the factors");
            assert_eq!((bits(7, 9), bits(10, 12)), types, "types of A and B");
            assert_eq!((bits(17, 22), bits(23, 23), bits(24, 26)), (n / 8, factors, 0));
            assert_eq!(bits(27, 28), m / 128, "M / 128, above three bits of 0");
        };
        for (m, n) in
            [128, 256].into_iter().flat_map(|m| (16..=256).step_by(16).map(move |n| (m, n)))
        {
            for byte in 0..4 {
                let d = instruction_block_scale::<Ue8m0, F8E4M3, F8E5M2>(m, n, byte);
                check(d, m, n, byte, (0, 1), 1);
            }
            for byte in [0, 2] {
                let d = instruction_block_scale::<Ue8m0, E2m1x2, E2m1x2>(m, n, byte);
                check(d, m, n, byte, (1, 1), 1);
            }
            let d = instruction_block_scale::<Ue4m3, E2m1x2, E2m1x2>(m, n, 0);
            check(d, m, n, 0, (1, 1), 0);
        }
    }
}
