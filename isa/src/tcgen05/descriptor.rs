//! The instruction descriptor, and the descriptor of an operand in shared memory.
//!
//! PTX manual: *TensorCore 5th Generation Family Instructions*, "Instruction descriptor" of `.kind::f16`, `.kind::tf32`,
//! `.kind::f8f6f4` and `.kind::i8`:
//!
//! ```text
//! bits 1-0, 2   sparsity            0
//! bit  3        saturate (integers) 0
//! bits 5-4      type of D           1 f32; of kind i8: 2 s32
//! bits 9-7      type of A           of kind f16: 0 f16, 1 bf16; tf32: 2 tf32; f8f6f4: 0 e4m3, 1 e5m2; i8: 1 s8
//! bits 12-10    type of B           as A's
//! bits 13, 14   negate A, B         0
//! bits 15, 16   A, B is MN-major    0 is K-major
//! bits 22-17    N / 8
//! bits 28-24    M / 16
//! bits 31-30    maximum shift       0
//! ```
//!
//! and "Shared memory descriptor":
//!
//! ```text
//! bits 13-0    start address        (address & 0x3FFFF) >> 4
//! bits 29-16   leading dimension byte offset, encoded the same way
//! bits 45-32   stride dimension byte offset, encoded the same way
//! bits 48-46   0b001
//! bits 51-49   base offset          0
//! bit  52      mode of the leading offset: 0, it is relative
//! bits 63-61   swizzle mode         0 none, 1 128 B of 32-byte atoms, 2 128 B, 4 64 B, 6 32 B
//! ```

use super::kind::{Kind, Operand};
pub use crate::wgmma::Swizzle;

/// The instruction descriptor of a multiplication of `m` x `n`, with A of elements `A` and B of elements `B`, both K-major.
/// (CUTLASS `UMMA::make_instr_desc`.)
///
/// `m` is 128, and `n` a multiple of 16 from 16 to 256. By a pair of CTAs `m` is 256, and `n` a multiple of 32.
#[inline(always)]
#[must_use]
pub const fn instruction<A: Operand, B: Operand<Kind = A::Kind>>(m: u32, n: u32) -> u32 {
    assert!(m == 128 || m == 256, "M is 128 by one CTA, and 256 by a pair");
    assert!(
        n >= 16 && n <= 256 && n.is_multiple_of(m / 8),
        "N is a multiple of M / 8 from there to 256"
    );
    A::Kind::SUM_CODE << 4 | A::CODE << 7 | B::CODE << 10 | (n / 8) << 17 | (m / 16) << 24
}

/// One 14-bit field: an address or offset without its low 4 bits.
const fn field(bytes: u32) -> u64 {
    ((bytes & 0x3_ffff) >> 4) as u64
}

/// The descriptor of an operand in shared memory. `lead_bytes` and `stride_bytes` are those of
/// [`wgmma::descriptor`](crate::wgmma::descriptor): the layouts are the same, and the codes differ. (CUTLASS
/// `UMMA::make_umma_desc`.)
#[inline(always)]
#[must_use]
pub const fn shared(addr: u32, lead_bytes: u32, stride_bytes: u32, swizzle: Swizzle) -> u64 {
    let code: u64 = match swizzle {
        Swizzle::None => 0,
        Swizzle::B128 => 2,
        Swizzle::B64 => 4,
        Swizzle::B32 => 6,
    };
    field(addr) | field(lead_bytes) << 16 | field(stride_bytes) << 32 | 1 << 46 | code << 61
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tf32;
    use float8::{F8E4M3, F8E5M2};
    use half::{bf16, f16};

    /// The manual's table, field by field: first bit, last bit, value.
    #[test]
    fn instruction_fields_are_where_the_manual_says() {
        let check_rows = |m: u32, d: u32, sum: u32, a: u32, b: u32, n: u32| {
            let bits = |first: u32, last: u32| d >> first & ((1 << (last - first + 1)) - 1);
            assert_eq!(bits(0, 3), 0, "dense, no saturation");
            assert_eq!(bits(4, 5), sum, "type of D");
            assert_eq!(bits(6, 6), 0);
            assert_eq!((bits(7, 9), bits(10, 12)), (a, b), "types of A and B");
            assert_eq!(bits(13, 16), 0, "nothing negated, both K-major");
            assert_eq!(bits(17, 22), n / 8, "N");
            assert_eq!(bits(23, 23), 0);
            assert_eq!(bits(24, 28), m / 16, "M / 16");
            assert_eq!(bits(29, 31), 0);
        };
        let check = |d, sum, a, b, n| check_rows(128, d, sum, a, b, n);
        for n in (32..=256).step_by(32) {
            check_rows(256, instruction::<bf16, bf16>(256, n), 1, 1, 1, n);
            check_rows(256, instruction::<F8E4M3, F8E5M2>(256, n), 1, 0, 1, n);
        }
        for n in (16..=256).step_by(16) {
            check(instruction::<f16, f16>(128, n), 1, 0, 0, n);
            check(instruction::<bf16, bf16>(128, n), 1, 1, 1, n);
            check(instruction::<f16, bf16>(128, n), 1, 0, 1, n);
            check(instruction::<bf16, f16>(128, n), 1, 1, 0, n);
            check(instruction::<Tf32, Tf32>(128, n), 1, 2, 2, n);
            check(instruction::<F8E4M3, F8E4M3>(128, n), 1, 0, 0, n);
            check(instruction::<F8E5M2, F8E4M3>(128, n), 1, 1, 0, n);
            check(instruction::<F8E4M3, F8E5M2>(128, n), 1, 0, 1, n);
            check(instruction::<i8, i8>(128, n), 2, 1, 1, n);
        }
    }

    #[test]
    fn shared_fields_are_where_the_manual_says() {
        let codes = [(Swizzle::None, 0), (Swizzle::B128, 2), (Swizzle::B64, 4), (Swizzle::B32, 6)];
        for (swizzle, code) in codes {
            let d = shared(0x2480, 0x30, 0x500, swizzle);
            let bits = |first: u32, last: u32| d >> first & ((1 << (last - first + 1)) - 1);
            assert_eq!(bits(0, 13), 0x248, "start address");
            assert_eq!(bits(14, 15), 0);
            assert_eq!(bits(16, 29), 0x3, "leading dimension byte offset");
            assert_eq!(bits(30, 31), 0);
            assert_eq!(bits(32, 45), 0x50, "stride dimension byte offset");
            assert_eq!(bits(46, 48), 1, "the fixed bits");
            assert_eq!(bits(49, 52), 0, "base offset and mode");
            assert_eq!(bits(53, 60), 0);
            assert_eq!(bits(61, 63), code, "swizzle of {swizzle:?}");
        }
    }
}
