//! The element types of A and B, which of them multiply, and the majors that they have.

use crate::Tf32;
use float8::{F8E4M3, F8E5M2};
use half::{bf16, f16};

/// The element types of A and B.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OperandType {
    /// `.bf16`
    Bf16,
    /// `.f16`
    F16,
    /// `.tf32`
    Tf32,
    /// `.e4m3`
    E4m3,
    /// `.e5m2`
    E5m2,
    /// `.s8`
    S8,
}

#[cfg(not(target_arch = "nvptx64"))]
impl From<OperandType> for sim::ops::wgmma::OperandType {
    fn from(t: OperandType) -> Self {
        match t {
            OperandType::Bf16 => Self::Bf16,
            OperandType::F16 => Self::F16,
            OperandType::Tf32 => Self::Tf32,
            OperandType::E4m3 => Self::E4m3,
            OperandType::E5m2 => Self::E5m2,
            OperandType::S8 => Self::S8,
        }
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::KMajor {}
    impl Sealed for super::MnMajor {}
    impl Sealed for half::bf16 {}
    impl Sealed for half::f16 {}
    impl Sealed for crate::Tf32 {}
    impl Sealed for float8::F8E4M3 {}
    impl Sealed for float8::F8E5M2 {}
    impl Sealed for i8 {}
}

/// An element type of A and B: [`half::bf16`], [`half::f16`], [`Tf32`], [`float8::F8E4M3`],
/// [`float8::F8E5M2`] or [`i8`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be an operand of wgmma",
    label = "not an operand's element",
    note = "the operands of wgmma are `bf16`, `f16`, `Tf32`, `F8E4M3`, `F8E5M2` or `i8` here"
)]
pub trait Operand: Copy + OperandMajor<KMajor> + sealed::Sealed + 'static {
    /// The type as a value.
    const TYPE: OperandType;
}

/// An element type of A that wgmma multiplies by the type `B`.
///
/// Both types are the same, except that the 8-bit floats multiply each other in every mix.
#[diagnostic::on_unimplemented(
    message = "wgmma can't multiply an A of `{Self}` by a B of `{B}`",
    label = "no instruction multiplies `{Self}` by `{B}`",
    note = "A and B have one element type (`bf16`, `f16`, `Tf32` or `i8`), or are `F8E4M3` or `F8E5M2` each",
    note = "a tensor of f32 is multiplied as `Tf32`"
)]
pub trait MulBy<B: Operand>: Operand {
    /// The type of the sums: f32, or i32 for those of integers.
    type Sum: Copy + Default + 'static;
}

macro_rules! operands {
    ($($t:ty as $type:ident, by $($b:ty),+ => $sum:ty;)+) => {$(
        impl Operand for $t {
            const TYPE: OperandType = OperandType::$type;
        }
        $(impl MulBy<$b> for $t {
            type Sum = $sum;
        })+
    )+};
}
operands! {
    bf16 as Bf16, by bf16 => f32;
    f16 as F16, by f16 => f32;
    Tf32 as Tf32, by Tf32 => f32;
    F8E4M3 as E4m3, by F8E4M3, F8E5M2 => f32;
    F8E5M2 as E5m2, by F8E4M3, F8E5M2 => f32;
    i8 as S8, by i8 => i32;
}

/// The extent along which the elements of an operand in shared memory are contiguous: [`KMajor`] or
/// [`MnMajor`]. (CUTLASS `GMMA::Major`; `imm-trans-a` and `imm-trans-b` in the manual.)
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no major of an operand of wgmma",
    label = "not a major",
    note = "the elements of an operand are contiguous along K (`KMajor`) or along M or N (`MnMajor`)"
)]
pub trait Major: Copy + sealed::Sealed + 'static {
    /// Whether the elements are contiguous along M of A or N of B.
    const MN: bool;
}

/// The elements are contiguous along K: A is row-major, B is given as its transpose, `[N, K]`.
#[derive(Clone, Copy, Debug)]
pub struct KMajor;
impl Major for KMajor {
    const MN: bool = false;
}

/// The elements are contiguous along M of A, or along N of B: A is given as its transpose, `[K, M]`, and
/// B is row-major, `[K, N]`.
#[derive(Clone, Copy, Debug)]
pub struct MnMajor;
impl Major for MnMajor {
    const MN: bool = true;
}

/// An element type that wgmma reads in the major `M` from shared memory.
///
/// Types of 16 bits have both majors. The others (8 bits, tf32) are K-major only: their instructions have
/// no `imm-trans`.
#[diagnostic::on_unimplemented(
    message = "wgmma can't read operands of `{Self}` in the major `{M}`",
    label = "not an operand in this major",
    note = "`bf16` and `f16` have both majors, `KMajor` and `MnMajor`; `Tf32`, `F8E4M3`, `F8E5M2` and `i8` are `KMajor` only"
)]
pub trait OperandMajor<M: Major>: sealed::Sealed {}
impl<M: Major> OperandMajor<M> for bf16 {}
impl<M: Major> OperandMajor<M> for f16 {}
impl OperandMajor<KMajor> for Tf32 {}
impl OperandMajor<KMajor> for F8E4M3 {}
impl OperandMajor<KMajor> for F8E5M2 {}
impl OperandMajor<KMajor> for i8 {}
