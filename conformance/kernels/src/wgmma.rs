//! wgmma with operands in the host's layout; the accumulators are recorded register by register.

use half::{bf16, f16};
use isa::kernel::KernelArg;
use isa::slice::{DeviceSlice, DeviceSliceMut};
use isa::wgmma::{self, KMajor, M64, MulBy, Operand, Shape, Swizzle};
use isa::{fence, kernel, shared, thread};

/// Bytes for the two operands.
pub const SMEM: u32 = 48 * 1024;

/// Positions of the operands and their descriptors' fields. Addresses are relative to the start of shared
/// memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelArg)]
pub struct Operands {
    /// Start of A and of B.
    pub start: [u32; 2],
    /// Leading dimension byte offsets.
    pub lead: [u32; 2],
    /// Stride dimension byte offsets.
    pub stride: [u32; 2],
    /// Span of the swizzle: 0, 32, 64 or 128 bytes.
    pub span: u32,
    /// Bytes from one step of 16 along K to the next, for A and for B.
    pub step: [u32; 2],
    /// Steps.
    pub steps: u32,
    /// Initial value of the accumulators. Every other one has its negative.
    pub before: f32,
    /// Whether the first step adds to the initial value.
    pub scale_d: u32,
}

impl Operands {
    /// The descriptor of operand `i` at step `k`.
    #[inline(always)]
    pub(crate) fn descriptor(&self, i: usize, k: u32) -> u64 {
        let at = shared::dynamic_base() + self.start[i] + k * self.step[i];
        wgmma::descriptor(at, self.lead[i], self.stride[i], swizzle(self.span))
    }
}

/// The swizzle over `span` bytes.
#[inline(always)]
pub(crate) fn swizzle(span: u32) -> Swizzle {
    match span {
        128 => Swizzle::B128,
        64 => Swizzle::B64,
        32 => Swizzle::B32,
        _ => Swizzle::None,
    }
}

/// Copies the operands to shared memory and makes them visible to wgmma.
#[inline(always)]
pub(crate) fn bring(bytes: &DeviceSlice<'_, u32>) {
    let base = shared::dynamic_base();
    let mut i = thread::thread_idx_x();
    // SAFETY: the CTA's own memory; each writer publishes it to the asynchronous proxy before all
    // threads meet.
    unsafe {
        while let Some(v) = bytes.get(i as usize) {
            shared::st(base + 4 * i, v);
            i += thread::block_dim_x();
        }
        fence::proxy_async_shared_cta();
        thread::sync_threads();
    }
}

/// The type of sums.
pub(crate) trait Sum: Copy {
    fn of(x: f32) -> Self;
    fn bits(self) -> u32;
}
impl Sum for f32 {
    #[inline(always)]
    fn of(x: f32) -> Self {
        x
    }
    #[inline(always)]
    fn bits(self) -> u32 {
        self.to_bits()
    }
}
impl Sum for i32 {
    #[inline(always)]
    fn of(x: f32) -> Self {
        x as i32
    }
    #[inline(always)]
    fn bits(self) -> u32 {
        self.cast_unsigned()
    }
}

/// Accumulators before the first step.
#[inline(always)]
fn before<S: Shape<T>, T: Sum>(o: &Operands) -> S::Regs {
    let mut d = S::ZERO;
    for (i, v) in d.as_mut().iter_mut().enumerate() {
        *v = T::of(if i % 2 == 0 { o.before } else { -o.before });
    }
    d
}

/// `out[tid * N/2 + r]` is register r.
#[inline(always)]
fn write<S: Shape<T>, T: Sum>(out: &DeviceSliceMut<'_, u32>, d: &S::Regs) {
    let first = thread::thread_idx_x() as usize * (S::N / 2);
    for (r, v) in d.as_ref().iter().enumerate() {
        out.set(first + r, v.bits());
    }
}

/// D = A·Bᵀ + D in steps of 32 bytes, both operands from shared memory.
#[inline(always)]
pub(crate) fn multiply<S, A, B>(
    out: &DeviceSliceMut<'_, u32>,
    bytes: &DeviceSlice<'_, u32>,
    o: &Operands,
) where
    S: Shape<A::Sum>,
    A: MulBy<B, Sum: Sum>,
    B: Operand,
{
    bring(bytes);
    let mut d = before::<S, A::Sum>(o);
    for k in 0..o.steps {
        // Between the fence and the wgmma there is nothing but these: ptxas adds a fence otherwise.
        let (a, b) = (o.descriptor(0, k), o.descriptor(1, k));
        let scale = o.scale_d != 0 || k > 0;
        S::fence_operand(&mut d);
        // SAFETY: all four warps are here; the operands are published, and not written again; the
        // accumulators are used after the wait.
        unsafe {
            wgmma::fence();
            S::mma::<A, B, KMajor, KMajor>(&mut d, a, b, scale);
            wgmma::commit_group();
            wgmma::wait_group::<0>();
        }
        S::fence_operand(&mut d);
    }
    write::<S, A::Sum>(out, &d);
}

/// One step with A in registers. Word `4 tid + r` of `a` is register r of thread tid.
#[inline(always)]
pub(crate) fn multiply_rs<S, A, B>(
    out: &DeviceSliceMut<'_, u32>,
    a: &DeviceSlice<'_, u32>,
    bytes: &DeviceSlice<'_, u32>,
    o: &Operands,
) where
    S: Shape<A::Sum>,
    A: MulBy<B, Sum: Sum>,
    B: Operand,
{
    bring(bytes);
    let first = 4 * thread::thread_idx_x() as usize;
    let mut regs = [0; 4];
    for (r, v) in regs.iter_mut().enumerate() {
        *v = a.get(first + r).unwrap_or(0);
    }
    let mut d = before::<S, A::Sum>(o);
    let (b, scale) = (o.descriptor(1, 0), o.scale_d != 0);
    S::fence_operand(&mut d);
    // SAFETY: as in `multiply`.
    unsafe {
        wgmma::fence();
        S::mma_rs::<A, B, KMajor>(&mut d, &mut regs, b, scale);
        wgmma::commit_group();
        wgmma::wait_group::<0>();
    }
    S::fence_operand(&mut d);
    write::<S, A::Sum>(out, &d);
}

/// Two groups in flight into two sets of accumulators: step 0 into the first, steps 1 and on into the
/// second. The first is read when one group may still be pending, and stored without a branch: with one
/// in between, ptxas makes the second group wait for the first (C7518).
#[kernel(threads = 128, smem = SMEM + 128 * 64)]
pub fn wgmma_groups(out: DeviceSliceMut<'_, u32>, bytes: DeviceSlice<'_, u32>, o: Operands) {
    type S = M64<32>;
    bring(&bytes);
    let (mut first, mut second) = (before::<S, f32>(&o), before::<S, f32>(&o));
    let [a0, a1, a2, a3] = [0, 1, 2, 3].map(|k| o.descriptor(0, k));
    let [b0, b1, b2, b3] = [0, 1, 2, 3].map(|k| o.descriptor(1, k));
    let own = shared::dynamic_base() + SMEM + 64 * thread::thread_idx_x();
    <S as Shape>::fence_operand(&mut first);
    <S as Shape>::fence_operand(&mut second);
    // SAFETY: as in `multiply`; 64 bytes behind the operands are the thread's own; a set of accumulators
    // is used after the wait that covers its group.
    unsafe {
        wgmma::fence();
        S::mma::<bf16, bf16, KMajor, KMajor>(&mut first, a0, b0, true);
        wgmma::commit_group();
        S::mma::<bf16, bf16, KMajor, KMajor>(&mut second, a1, b1, true);
        S::mma::<bf16, bf16, KMajor, KMajor>(&mut second, a2, b2, true);
        S::mma::<bf16, bf16, KMajor, KMajor>(&mut second, a3, b3, true);
        wgmma::commit_group();
        wgmma::wait_group::<1>();
        <S as Shape>::fence_operand(&mut first);
        for (at, v) in (own..).step_by(4).zip(&first) {
            shared::st(at, v.to_bits());
        }
        wgmma::wait_group::<0>();
    }
    <S as Shape>::fence_operand(&mut second);
    let base = 32 * thread::thread_idx_x() as usize;
    for (r, v) in second.iter().enumerate() {
        // SAFETY: the thread's own words, written above.
        out.set(base + r, unsafe { shared::ld(own + 4 * r as u32) });
        out.set(base + 16 + r, v.to_bits());
    }
}

/// One of the kernels below.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy)]
pub struct Instance {
    /// With bf16 operands.
    pub bf16: &'static isa::kernel::KernelDesc,
    /// With f16 operands.
    pub f16: &'static isa::kernel::KernelDesc,
    /// Columns.
    pub n: u32,
}

macro_rules! instances {
    ($($bf16:ident, $f16:ident: $n:literal;)*) => {
        $(
            /// `multiply` with bf16 operands.
            #[kernel(threads = 128, smem = SMEM)]
            pub fn $bf16(out: DeviceSliceMut<'_, u32>, bytes: DeviceSlice<'_, u32>, o: Operands) {
                multiply::<M64<$n>, bf16, bf16>(&out, &bytes, &o);
            }
            /// `multiply` with f16 operands.
            #[kernel(threads = 128, smem = SMEM)]
            pub fn $f16(out: DeviceSliceMut<'_, u32>, bytes: DeviceSlice<'_, u32>, o: Operands) {
                multiply::<M64<$n>, f16, f16>(&out, &bytes, &o);
            }
        )*
        /// Both operands from shared memory, for every N.
        #[cfg(not(target_arch = "nvptx64"))]
        pub const INSTANCES: &[Instance] = &[$(Instance {
            bf16: &<$bf16 as kernel::Kernel>::DESC,
            f16: &<$f16 as kernel::Kernel>::DESC,
            n: $n,
        }),*];
    };
}
instances! {
    wgmma_n8_bf16, wgmma_n8_f16: 8; wgmma_n16_bf16, wgmma_n16_f16: 16;
    wgmma_n24_bf16, wgmma_n24_f16: 24; wgmma_n32_bf16, wgmma_n32_f16: 32;
    wgmma_n40_bf16, wgmma_n40_f16: 40; wgmma_n48_bf16, wgmma_n48_f16: 48;
    wgmma_n56_bf16, wgmma_n56_f16: 56; wgmma_n64_bf16, wgmma_n64_f16: 64;
    wgmma_n72_bf16, wgmma_n72_f16: 72; wgmma_n80_bf16, wgmma_n80_f16: 80;
    wgmma_n88_bf16, wgmma_n88_f16: 88; wgmma_n96_bf16, wgmma_n96_f16: 96;
    wgmma_n104_bf16, wgmma_n104_f16: 104; wgmma_n112_bf16, wgmma_n112_f16: 112;
    wgmma_n120_bf16, wgmma_n120_f16: 120; wgmma_n128_bf16, wgmma_n128_f16: 128;
    wgmma_n136_bf16, wgmma_n136_f16: 136; wgmma_n144_bf16, wgmma_n144_f16: 144;
    wgmma_n152_bf16, wgmma_n152_f16: 152; wgmma_n160_bf16, wgmma_n160_f16: 160;
    wgmma_n168_bf16, wgmma_n168_f16: 168; wgmma_n176_bf16, wgmma_n176_f16: 176;
    wgmma_n184_bf16, wgmma_n184_f16: 184; wgmma_n192_bf16, wgmma_n192_f16: 192;
    wgmma_n200_bf16, wgmma_n200_f16: 200; wgmma_n208_bf16, wgmma_n208_f16: 208;
    wgmma_n216_bf16, wgmma_n216_f16: 216; wgmma_n224_bf16, wgmma_n224_f16: 224;
    wgmma_n232_bf16, wgmma_n232_f16: 232; wgmma_n240_bf16, wgmma_n240_f16: 240;
    wgmma_n248_bf16, wgmma_n248_f16: 248; wgmma_n256_bf16, wgmma_n256_f16: 256;
}

macro_rules! from_registers {
    ($($(#[$doc:meta])* $name:ident: $n:literal, $t:ty;)*) => {$(
        $(#[$doc])*
        #[kernel(threads = 128, smem = SMEM)]
        pub fn $name(
            out: DeviceSliceMut<'_, u32>,
            a: DeviceSlice<'_, u32>,
            bytes: DeviceSlice<'_, u32>,
            o: Operands,
        ) {
            multiply_rs::<M64<$n>, $t, $t>(&out, &a, &bytes, &o);
        }
    )*};
}
from_registers! {
    /// A from registers, 8 columns of bf16.
    wgmma_rs_n8_bf16: 8, bf16;
    /// A from registers, 64 columns of bf16.
    wgmma_rs_n64_bf16: 64, bf16;
    /// A from registers, 64 columns of f16.
    wgmma_rs_n64_f16: 64, f16;
}
