//! The kinds of `tcgen05.mma`, and the element types of their operands.
//!
//! PTX manual: *TensorCore 5th Generation Family Instructions*, "Kind" and "Data types".

use super::{
    mma_f8f6f4, mma_f8f6f4_2sm, mma_f16, mma_f16_2sm, mma_i8, mma_i8_2sm, mma_tf32, mma_tf32_2sm,
};
use crate::Tf32;
use float8::{F8E4M3, F8E5M2};
use half::{bf16, f16};

mod sealed {
    pub trait Sealed {}
}
use sealed::Sealed;

/// A kind of multiplication: the instruction's `.kind`. It multiplies 32 bytes of each row along K.
pub trait Kind: Sealed + 'static {
    /// The type of the sums in tensor memory.
    type Sum: Copy + 'static;
    /// Its code in an instruction descriptor.
    const SUM_CODE: u32;
    /// Issues the multiplication, as [`mma_f16`] does.
    ///
    /// # Safety
    /// As [`mma_f16`]. `idesc` is of this kind.
    unsafe fn mma(d: u32, a: u64, b: u64, idesc: u32, scale_d: bool);
    /// Issues the multiplication by a pair of CTAs, as [`mma_f16_2sm`] does.
    ///
    /// # Safety
    /// As [`mma_f16_2sm`]. `idesc` is of this kind.
    unsafe fn mma_2sm(d: u32, a: u64, b: u64, idesc: u32, scale_d: bool);
}

/// An element type of the operands of `tcgen05.mma`: [`half::bf16`], [`half::f16`], [`Tf32`], [`float8::F8E4M3`],
/// [`float8::F8E5M2`] or [`i8`].
///
/// A and B have types of one kind, in any mix.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no element type of `tcgen05.mma`",
    label = "not an operand's element",
    note = "A and B are `bf16` or `f16` each, `F8E4M3` or `F8E5M2` each, `Tf32` both, or `i8` both",
    note = "a tensor of f32 is multiplied as `Tf32`"
)]
pub trait Operand: Sealed + Copy + 'static {
    /// The kind of the multiplication.
    type Kind: Kind;
    /// Its code in an instruction descriptor.
    const CODE: u32;
}

macro_rules! kinds {
    ($($(#[$meta:meta])* $kind:ident: $mma:ident $pair:ident => $sum:ty = $sum_code:literal, $($t:ty = $code:literal),+;)+) => {$(
        $(#[$meta])*
        #[derive(Debug)]
        pub enum $kind {}
        impl Sealed for $kind {}
        impl Kind for $kind {
            type Sum = $sum;
            const SUM_CODE: u32 = $sum_code;
            #[crate::device]
            unsafe fn mma(d: u32, a: u64, b: u64, idesc: u32, scale_d: bool) {
                // SAFETY: the caller's contract.
                unsafe { $mma(d, a, b, idesc, scale_d) }
            }
            #[crate::device]
            unsafe fn mma_2sm(d: u32, a: u64, b: u64, idesc: u32, scale_d: bool) {
                // SAFETY: the caller's contract.
                unsafe { $pair(d, a, b, idesc, scale_d) }
            }
        }
        $(
            impl Sealed for $t {}
            impl Operand for $t {
                type Kind = $kind;
                const CODE: u32 = $code;
            }
        )+
    )+};
}
kinds! {
    /// `.kind::f16`: bf16 and f16, 16 elements along K.
    KindF16: mma_f16 mma_f16_2sm => f32 = 1, f16 = 0, bf16 = 1;
    /// `.kind::tf32`: 8 elements along K.
    KindTf32: mma_tf32 mma_tf32_2sm => f32 = 1, Tf32 = 2;
    /// `.kind::f8f6f4`: of its types e4m3 and e5m2, 32 elements along K.
    KindF8f6f4: mma_f8f6f4 mma_f8f6f4_2sm => f32 = 1, F8E4M3 = 0, F8E5M2 = 1;
    /// `.kind::i8`: of its types s8, 32 elements along K. Sums wrap around. It exists on sm_100a, and not on sm_103a.
    KindI8: mma_i8 mma_i8_2sm => i32 = 2, i8 = 1;
}
