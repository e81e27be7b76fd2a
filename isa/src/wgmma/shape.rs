//! `wgmma.mma_async.sync.aligned.m64nNkK.S.A.B` for every N, and for the element types of
//! [`super::element`].

#[cfg(target_arch = "nvptx64")]
use super::element::OperandType;
use super::element::{Major, MulBy, Operand, OperandMajor};
use crate::device;

mod sealed {
    pub trait Sealed {}
    impl<const N: usize> Sealed for super::M64<N> {}
}

/// The shape m64nN. It implements [`Shape`] for N = 8, 16, … 256, and `Shape<i32>` for 8, 16, 24, 32, 48,
/// 64, 80, … 256.
#[derive(Clone, Copy, Debug)]
pub struct M64<const N: usize>;

/// A shape of wgmma with sums of type `Sum`, f32 or i32: M = 64, `N` columns, K = 32 bytes.
#[diagnostic::on_unimplemented(
    message = "wgmma has no shape `{Self}` with sums of `{Sum}`",
    label = "not a shape of wgmma",
    note = "N, the columns of an accumulator, is a multiple of 8 from 8 to 256",
    note = "sums of i32 have 8, 16, 24 or 32 columns, or a multiple of 16 from 48 to 256"
)]
pub trait Shape<Sum = f32>: sealed::Sealed {
    /// Number of columns.
    const N: usize;
    /// This thread's accumulators: `N / 2` sums.
    type Regs: Copy + AsRef<[Sum]> + AsMut<[Sum]>;
    /// Zero accumulators.
    const ZERO: Self::Regs;

    /// `wgmma.mma_async.sync.aligned.m64nNkK.S.A.B {d}, a, b, p, 1, 1, tA, tB;`: `D = A*B + D`, or
    /// `D = A*B` without `scale_d`. `a` and `b` are [`super::descriptor`]s of a `MajorA` and a `MajorB`
    /// operand.
    ///
    /// K is 32 bytes: 16 elements of 16 bits, 32 of 8 bits, 8 of tf32. Types other than bf16 and f16 have no
    /// majors (`tA`, `tB`), and sums of integers have no signs (`1, 1`) either.
    ///
    /// # Safety
    /// All warps of the warp group execute it, convergent, after [`super::fence`]. Until
    /// [`super::wait_group`] has retired it, only further wgmmas of the same shape access `d`, and the
    /// shared memory of A and B is not written. That memory is visible to the asynchronous proxy.
    unsafe fn mma<A, B, MajorA, MajorB>(d: &mut Self::Regs, a: u64, b: u64, scale_d: bool)
    where
        A: MulBy<B, Sum = Sum> + OperandMajor<MajorA>,
        B: Operand + OperandMajor<MajorB>,
        MajorA: Major,
        MajorB: Major;

    /// [`Shape::mma`] with A in registers. `a` holds this thread's elements of the tile of 64 rows and 32
    /// bytes, with 16 rows for each warp, in the layout of A in `mma.m16n8k16` (8 bits: `.m16n8k32`, tf32:
    /// `.m16n8k8`). It has no major; that of B is `MajorB`.
    ///
    /// Of E elements in a register, register `i` of lane `l` holds columns `E (l % 4) + 4 E (i / 2)` and on
    /// of row `l / 4 + 8 (i % 2)`.
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
    unsafe fn mma_rs<A, B, MajorB>(d: &mut Self::Regs, a: &mut [u32; 4], b: u64, scale_d: bool)
    where
        A: MulBy<B, Sum = Sum>,
        B: Operand + OperandMajor<MajorB>,
        MajorB: Major;

    /// Keeps the compiler from moving a use of the accumulators across this call. It emits no instruction.
    /// (CUTLASS `warpgroup_fence_operand`.)
    ///
    /// Call it after the wait and before the first use. On the SM model the accumulators hold patterns
    /// from the issue of a wgmma until this call. Before the wait it has no effect.
    fn fence_operand(d: &mut Self::Regs);
}

/// One wgmma: `$what` is what stands between N and D, `$a` and `$rest` the operands behind D. `$i` are the
/// accumulators' operand numbers after 0.
#[cfg(target_arch = "nvptx64")]
macro_rules! wgmma {
    ($n:literal, $what:literal, [$($i:literal)*], $d:ident, $scale:ident, $rest:literal, $($operand:tt)*) => {
        ptx!(
            concat!(
                "{{ .reg .pred p; setp.ne.b32 p, {scale}, 0; ",
                "wgmma.mma_async.sync.aligned.m64n", $n, $what, " {{{0}", $(", {", $i, "}",)* "}}, ", $rest,
                "; }}"
            ),
            inout(reg32) $d[0], $(inout(reg32) $d[$i],)*
            scale = in(reg32) u32::from($scale), $($operand)*
        )
    };
}

/// One wgmma with A in shared memory. With majors `$ta` and `$tb` if the type has them.
#[cfg(target_arch = "nvptx64")]
macro_rules! mma_ss {
    ($n:literal, $what:literal, $i:tt, $d:ident, $scale:ident, $a:ident, $b:ident, majors $ta:ty, $tb:ty) => {
        wgmma!($n, $what, $i, $d, $scale, "{a}, {b}, p, 1, 1, {ta}, {tb}",
            a = in(reg64) $a, b = in(reg64) $b, ta = const <$ta>::MN as u32, tb = const <$tb>::MN as u32)
    };
    ($n:literal, $what:literal, $i:tt, $d:ident, $scale:ident, $a:ident, $b:ident, signs) => {
        wgmma!($n, $what, $i, $d, $scale, "{a}, {b}, p, 1, 1", a = in(reg64) $a, b = in(reg64) $b)
    };
    ($n:literal, $what:literal, $i:tt, $d:ident, $scale:ident, $a:ident, $b:ident) => {
        wgmma!($n, $what, $i, $d, $scale, "{a}, {b}, p", a = in(reg64) $a, b = in(reg64) $b)
    };
}

/// One wgmma with A in registers.
#[cfg(target_arch = "nvptx64")]
macro_rules! mma_rs {
    (@ $n:literal, $what:literal, $i:tt, $d:ident, $scale:ident, $a:ident, $b:ident, $rest:literal, $($tb:tt)*) => {
        wgmma!($n, $what, $i, $d, $scale, $rest,
            a0 = in(reg32) $a[0], a1 = in(reg32) $a[1], a2 = in(reg32) $a[2], a3 = in(reg32) $a[3],
            b = in(reg64) $b $($tb)*)
    };
    ($n:literal, $what:literal, $i:tt, $d:ident, $scale:ident, $a:ident, $b:ident, major $tb:ty) => {
        mma_rs!(@ $n, $what, $i, $d, $scale, $a, $b, "{{{a0}, {a1}, {a2}, {a3}}}, {b}, p, 1, 1, {tb}",
            , tb = const <$tb>::MN as u32)
    };
    ($n:literal, $what:literal, $i:tt, $d:ident, $scale:ident, $a:ident, $b:ident, signs) => {
        mma_rs!(@ $n, $what, $i, $d, $scale, $a, $b, "{{{a0}, {a1}, {a2}, {a3}}}, {b}, p, 1, 1",)
    };
    ($n:literal, $what:literal, $i:tt, $d:ident, $scale:ident, $a:ident, $b:ident) => {
        mma_rs!(@ $n, $what, $i, $d, $scale, $a, $b, "{{{a0}, {a1}, {a2}, {a3}}}, {b}, p",)
    };
}

/// `Shape<$sum>` of N columns. `$ss` and `$rs` are the functions' bodies on the device.
macro_rules! shape {
    (
        $n:literal, $sum:ty, $zero:literal, [$($i:literal)*],
        |$d:ident, $a:ident, $b:ident, $scale:ident, $A:ident, $B:ident, $MA:ident, $MB:ident|
        $ss:expr, $rs:expr
    ) => {
        impl Shape<$sum> for M64<$n> {
            const N: usize = $n;
            type Regs = [$sum; $n / 2];
            const ZERO: Self::Regs = [$zero; $n / 2];

            #[device]
            unsafe fn mma<$A, $B, $MA, $MB>($d: &mut Self::Regs, $a: u64, $b: u64, $scale: bool)
            where
                $A: MulBy<$B, Sum = $sum> + OperandMajor<$MA>,
                $B: Operand + OperandMajor<$MB>,
                $MA: Major,
                $MB: Major,
            {
                #[cfg(target_arch = "nvptx64")]
                $ss;
                #[cfg(not(target_arch = "nvptx64"))]
                sim::ops::wgmma::mma_ss(
                    $d,
                    ($a, major::<$MA>()),
                    ($b, major::<$MB>()),
                    $scale,
                    [$A::TYPE.into(), $B::TYPE.into()],
                );
            }

            #[device]
            unsafe fn mma_rs<$A, $B, $MB>(
                $d: &mut Self::Regs,
                $a: &mut [u32; 4],
                $b: u64,
                $scale: bool,
            ) where
                $A: MulBy<$B, Sum = $sum>,
                $B: Operand + OperandMajor<$MB>,
                $MB: Major,
            {
                #[cfg(target_arch = "nvptx64")]
                $rs;
                #[cfg(not(target_arch = "nvptx64"))]
                {
                    let types = [$A::TYPE.into(), $B::TYPE.into()];
                    sim::ops::wgmma::mma_rs($d, $a, ($b, major::<$MB>()), $scale, types);
                }
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

/// A shape with sums of f32.
macro_rules! shape_f32 {
    ($n:literal, $i:tt) => {
        shape!(
            $n, f32, 0.0, $i, |d, a, b, scale_d, A, B, MajorA, MajorB|
            match (A::TYPE, B::TYPE) {
                (OperandType::Bf16, _) => mma_ss!($n, "k16.f32.bf16.bf16", $i, d, scale_d, a, b, majors MajorA, MajorB),
                (OperandType::F16, _) => mma_ss!($n, "k16.f32.f16.f16", $i, d, scale_d, a, b, majors MajorA, MajorB),
                (OperandType::Tf32, _) => mma_ss!($n, "k8.f32.tf32.tf32", $i, d, scale_d, a, b, signs),
                (OperandType::E4m3, OperandType::E5m2) => mma_ss!($n, "k32.f32.e4m3.e5m2", $i, d, scale_d, a, b, signs),
                (OperandType::E4m3, _) => mma_ss!($n, "k32.f32.e4m3.e4m3", $i, d, scale_d, a, b, signs),
                (OperandType::E5m2, OperandType::E4m3) => mma_ss!($n, "k32.f32.e5m2.e4m3", $i, d, scale_d, a, b, signs),
                (OperandType::E5m2, _) => mma_ss!($n, "k32.f32.e5m2.e5m2", $i, d, scale_d, a, b, signs),
                (OperandType::S8, _) => unreachable!("sums of integers are i32"),
            },
            match (A::TYPE, B::TYPE) {
                (OperandType::Bf16, _) => mma_rs!($n, "k16.f32.bf16.bf16", $i, d, scale_d, a, b, major MajorB),
                (OperandType::F16, _) => mma_rs!($n, "k16.f32.f16.f16", $i, d, scale_d, a, b, major MajorB),
                (OperandType::Tf32, _) => mma_rs!($n, "k8.f32.tf32.tf32", $i, d, scale_d, a, b, signs),
                (OperandType::E4m3, OperandType::E5m2) => mma_rs!($n, "k32.f32.e4m3.e5m2", $i, d, scale_d, a, b, signs),
                (OperandType::E4m3, _) => mma_rs!($n, "k32.f32.e4m3.e4m3", $i, d, scale_d, a, b, signs),
                (OperandType::E5m2, OperandType::E4m3) => mma_rs!($n, "k32.f32.e5m2.e4m3", $i, d, scale_d, a, b, signs),
                (OperandType::E5m2, _) => mma_rs!($n, "k32.f32.e5m2.e5m2", $i, d, scale_d, a, b, signs),
                (OperandType::S8, _) => unreachable!("sums of integers are i32"),
            }
        );
    };
}

/// A shape with sums of i32.
macro_rules! shape_i32 {
    ($n:literal, $i:tt) => {
        shape!(
            $n,
            i32,
            0,
            $i,
            |d, a, b, scale_d, A, B, MajorA, MajorB| mma_ss!(
                $n,
                "k32.s32.s8.s8",
                $i,
                d,
                scale_d,
                a,
                b
            ),
            mma_rs!($n, "k32.s32.s8.s8", $i, d, scale_d, a, b)
        );
    };
}

/// Each step adds four accumulators to the list and implements the shape that has all of them: with sums of
/// f32, and with those of i32 if `and i32` says so.
macro_rules! shapes {
    ({$($done:literal)*}) => {};
    ({$($done:literal)*} [$n:literal: $($i:literal)*] and i32 $($rest:tt)*) => {
        shape_i32!($n, [$($done)* $($i)*]);
        shapes!({$($done)*} [$n: $($i)*] $($rest)*);
    };
    ({$($done:literal)*} [$n:literal: $($i:literal)*] $($rest:tt)*) => {
        shape_f32!($n, [$($done)* $($i)*]);
        shapes!({$($done)* $($i)*} $($rest)*);
    };
}

shapes! { {}
    [8: 1 2 3] and i32 [16: 4 5 6 7] and i32 [24: 8 9 10 11] and i32 [32: 12 13 14 15] and i32
    [40: 16 17 18 19] [48: 20 21 22 23] and i32 [56: 24 25 26 27] [64: 28 29 30 31] and i32
    [72: 32 33 34 35] [80: 36 37 38 39] and i32 [88: 40 41 42 43] [96: 44 45 46 47] and i32
    [104: 48 49 50 51] [112: 52 53 54 55] and i32 [120: 56 57 58 59] [128: 60 61 62 63] and i32
    [136: 64 65 66 67] [144: 68 69 70 71] and i32 [152: 72 73 74 75] [160: 76 77 78 79] and i32
    [168: 80 81 82 83] [176: 84 85 86 87] and i32 [184: 88 89 90 91] [192: 92 93 94 95] and i32
    [200: 96 97 98 99] [208: 100 101 102 103] and i32 [216: 104 105 106 107] [224: 108 109 110 111] and i32
    [232: 112 113 114 115] [240: 116 117 118 119] and i32 [248: 120 121 122 123] [256: 124 125 126 127] and i32
}

/// A major as the model takes it.
#[cfg(not(target_arch = "nvptx64"))]
fn major<M: Major>() -> sim::ops::wgmma::Major {
    if M::MN { sim::ops::wgmma::Major::Mn } else { sim::ops::wgmma::Major::K }
}
