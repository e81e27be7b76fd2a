//! `wgmma.mma_async.sync.aligned.m64nNk16.f32.T.T` for every N from 8 to 256.

use crate::device;

/// The element types of A and B.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OperandType {
    /// `.bf16`
    Bf16,
    /// `.f16`
    F16,
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::KMajor {}
    impl Sealed for super::MnMajor {}
    impl Sealed for half::bf16 {}
    impl Sealed for half::f16 {}
    impl<const N: usize> Sealed for super::M64<N> {}
}

/// An element type of A and B: [`half::bf16`] or [`half::f16`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be an operand of wgmma",
    label = "not an operand's element",
    note = "the operands of wgmma are `bf16` or `f16` here"
)]
pub trait Operand: Copy + OperandMajor<KMajor> + sealed::Sealed + 'static {
    /// The type as a value.
    const TYPE: OperandType;
}
impl Operand for half::bf16 {
    const TYPE: OperandType = OperandType::Bf16;
}
impl Operand for half::f16 {
    const TYPE: OperandType = OperandType::F16;
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
/// Types of 16 bits have both majors. The manual's other types (8 bits, tf32) are K-major only, so their
/// instructions have no `imm-trans`.
#[diagnostic::on_unimplemented(
    message = "wgmma can't read operands of `{Self}` in the major `{M}`",
    label = "not an operand in this major",
    note = "`bf16` and `f16` have both majors, `KMajor` and `MnMajor`"
)]
pub trait OperandMajor<M: Major>: sealed::Sealed {}
impl<M: Major> OperandMajor<M> for half::bf16 {}
impl<M: Major> OperandMajor<M> for half::f16 {}

/// The shape m64nNk16. It implements [`Shape`] for N = 8, 16, … 256.
#[derive(Clone, Copy, Debug)]
pub struct M64<const N: usize>;

/// A shape of wgmma: M = 64, `N` columns, K = 16.
#[diagnostic::on_unimplemented(
    message = "wgmma has no shape `{Self}`",
    label = "not a shape of wgmma",
    note = "N, the columns of an accumulator, is a multiple of 8 from 8 to 256"
)]
pub trait Shape: sealed::Sealed {
    /// Number of columns.
    const N: usize;
    /// This thread's accumulators: `N / 2` floats.
    type Regs: Copy + AsRef<[f32]> + AsMut<[f32]>;
    /// Zero accumulators.
    const ZERO: Self::Regs;

    /// `wgmma.mma_async.sync.aligned.m64nNk16.f32.T.T {d}, a, b, p, 1, 1, tA, tB;`: `D = A*B + D`, or
    /// `D = A*B` without `scale_d`. `a` and `b` are [`super::descriptor`]s of a `MajorA` and a `MajorB`
    /// operand.
    ///
    /// # Safety
    /// All warps of the warp group execute it, convergent, after [`super::fence`]. Until
    /// [`super::wait_group`] has retired it, only further wgmmas of the same shape access `d`, and the
    /// shared memory of A and B is not written. That memory is visible to the asynchronous proxy.
    unsafe fn mma<T, MajorA, MajorB>(d: &mut Self::Regs, a: u64, b: u64, scale_d: bool)
    where
        T: Operand + OperandMajor<MajorA> + OperandMajor<MajorB>,
        MajorA: Major,
        MajorB: Major;

    /// [`Shape::mma`] with A in registers. `a` holds pairs of this thread's elements of the 64x16 tile in
    /// the layout of A in `mma.m16n8k16`, with 16 rows for each warp. It has no major; that of B is
    /// `MajorB`.
    ///
    /// The wgmma reads `a` until it has retired. So it borrows `a` mutably, although it does not write it:
    /// on the SM model the registers hold patterns from here on, and [`super::fence_fragment`] after
    /// the wait puts the values back. Several wgmmas may read one fragment. Give the wgmmas that are in
    /// flight together one array each, if their fragments differ: `for a in &mut fragments`, not
    /// `for mut a in fragments`, whose `a` is one variable, written again in each step of a rolled loop.
    ///
    /// # Safety
    /// As [`Shape::mma`]; the registers of `a` are not accessed, except by wgmmas that read them, until
    /// the wgmma has retired.
    unsafe fn mma_rs<T, MajorB>(d: &mut Self::Regs, a: &mut [u32; 4], b: u64, scale_d: bool)
    where
        T: Operand + OperandMajor<MajorB>,
        MajorB: Major;

    /// Keeps the compiler from moving a use of the accumulators across this call. It emits no instruction.
    /// (CUTLASS `warpgroup_fence_operand`.)
    ///
    /// Call it after the wait and before the first use. On the SM model the accumulators hold patterns
    /// from the issue of a wgmma until this call. Before the wait it has no effect.
    fn fence_operand(d: &mut Self::Regs);
}

/// One wgmma with A in shared memory, `$ta` and `$tb` its majors. `$i` are the accumulators' operand
/// numbers after 0.
#[cfg(target_arch = "nvptx64")]
macro_rules! mma_ss {
    ($n:literal, $t:literal, $ta:ty, $tb:ty,
     $d:ident, $a:ident, $b:ident, $scale:ident, $($i:literal)*) => {
        ptx!(
            concat!(
                "{{ .reg .pred p; setp.ne.b32 p, {scale}, 0; ",
                "wgmma.mma_async.sync.aligned.m64n", $n, "k16.f32.", $t, ".", $t, " {{{0}",
                $(", {", $i, "}",)*
                "}}, {a}, {b}, p, 1, 1, {ta}, {tb}; }}"
            ),
            inout(reg32) $d[0], $(inout(reg32) $d[$i],)*
            a = in(reg64) $a, b = in(reg64) $b, scale = in(reg32) u32::from($scale),
            ta = const <$ta>::MN as u32, tb = const <$tb>::MN as u32
        )
    };
}

/// One wgmma with A in registers.
#[cfg(target_arch = "nvptx64")]
macro_rules! mma_rs {
    ($n:literal, $t:literal, $tb:ty, $d:ident, $a:ident, $b:ident, $scale:ident, $($i:literal)*) => {
        ptx!(
            concat!(
                "{{ .reg .pred p; setp.ne.b32 p, {scale}, 0; ",
                "wgmma.mma_async.sync.aligned.m64n", $n, "k16.f32.", $t, ".", $t, " {{{0}",
                $(", {", $i, "}",)*
                "}}, {{{a0}, {a1}, {a2}, {a3}}}, {b}, p, 1, 1, {tb}; }}"
            ),
            inout(reg32) $d[0], $(inout(reg32) $d[$i],)*
            a0 = in(reg32) $a[0], a1 = in(reg32) $a[1], a2 = in(reg32) $a[2], a3 = in(reg32) $a[3],
            b = in(reg64) $b, scale = in(reg32) u32::from($scale),
            tb = const <$tb>::MN as u32
        )
    };
}

macro_rules! shape {
    ($n:literal, $($i:literal)*) => {
        impl Shape for M64<$n> {
            const N: usize = $n;
            type Regs = [f32; $n / 2];
            const ZERO: Self::Regs = [0.0; $n / 2];

            #[device]
            unsafe fn mma<T, MajorA, MajorB>(d: &mut Self::Regs, a: u64, b: u64, scale_d: bool)
            where
                T: Operand + OperandMajor<MajorA> + OperandMajor<MajorB>,
                MajorA: Major,
                MajorB: Major,
            {
                #[cfg(target_arch = "nvptx64")]
                match T::TYPE {
                    OperandType::Bf16 => mma_ss!($n, "bf16", MajorA, MajorB, d, a, b, scale_d, $($i)*),
                    OperandType::F16 => mma_ss!($n, "f16", MajorA, MajorB, d, a, b, scale_d, $($i)*),
                }
                #[cfg(not(target_arch = "nvptx64"))]
                sim::ops::wgmma::mma_ss(
                    d,
                    (a, major::<MajorA>()),
                    (b, major::<MajorB>()),
                    scale_d,
                    T::TYPE.into(),
                );
            }

            #[device]
            unsafe fn mma_rs<T, MajorB>(d: &mut Self::Regs, a: &mut [u32; 4], b: u64, scale_d: bool)
            where
                T: Operand + OperandMajor<MajorB>,
                MajorB: Major,
            {
                #[cfg(target_arch = "nvptx64")]
                match T::TYPE {
                    OperandType::Bf16 => mma_rs!($n, "bf16", MajorB, d, a, b, scale_d, $($i)*),
                    OperandType::F16 => mma_rs!($n, "f16", MajorB, d, a, b, scale_d, $($i)*),
                }
                #[cfg(not(target_arch = "nvptx64"))]
                sim::ops::wgmma::mma_rs(d, a, (b, major::<MajorB>()), scale_d, T::TYPE.into());
            }

            #[device]
            fn fence_operand(d: &mut Self::Regs) {
                #[cfg(target_arch = "nvptx64")]
                // An asm template must use its operands; a comment suffices.
                ptx!(
                    concat!("// {0}", $(" {", $i, "}",)*),
                    inout(reg32) d[0] $(, inout(reg32) d[$i])*
                );
                #[cfg(not(target_arch = "nvptx64"))]
                sim::ops::wgmma::fence_operand(d);
            }
        }
    };
}

/// Each step adds four accumulators to the list and implements the shape that has all of them.
macro_rules! shapes {
    ({$($done:literal)*}) => {};
    ({$($done:literal)*} [$n:literal: $($i:literal)*] $($rest:tt)*) => {
        shape!($n, $($done)* $($i)*);
        shapes!({$($done)* $($i)*} $($rest)*);
    };
}

shapes! { {}
    [8: 1 2 3] [16: 4 5 6 7] [24: 8 9 10 11] [32: 12 13 14 15]
    [40: 16 17 18 19] [48: 20 21 22 23] [56: 24 25 26 27] [64: 28 29 30 31]
    [72: 32 33 34 35] [80: 36 37 38 39] [88: 40 41 42 43] [96: 44 45 46 47]
    [104: 48 49 50 51] [112: 52 53 54 55] [120: 56 57 58 59] [128: 60 61 62 63]
    [136: 64 65 66 67] [144: 68 69 70 71] [152: 72 73 74 75] [160: 76 77 78 79]
    [168: 80 81 82 83] [176: 84 85 86 87] [184: 88 89 90 91] [192: 92 93 94 95]
    [200: 96 97 98 99] [208: 100 101 102 103] [216: 104 105 106 107] [224: 108 109 110 111]
    [232: 112 113 114 115] [240: 116 117 118 119] [248: 120 121 122 123] [256: 124 125 126 127]
}

/// A major as the model takes it.
#[cfg(not(target_arch = "nvptx64"))]
fn major<M: Major>() -> sim::ops::wgmma::Major {
    if M::MN { sim::ops::wgmma::Major::Mn } else { sim::ops::wgmma::Major::K }
}

#[cfg(not(target_arch = "nvptx64"))]
impl From<OperandType> for sim::ops::wgmma::OperandType {
    fn from(t: OperandType) -> Self {
        match t {
            OperandType::Bf16 => Self::Bf16,
            OperandType::F16 => Self::F16,
        }
    }
}
