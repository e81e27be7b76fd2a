//! wgmma of the element types that are K-major only, and the conversions to them.

use crate::wgmma::{Operands, SMEM, multiply, multiply_rs};
use float8::{F8E4M3, F8E5M2};
use isa::slice::{DeviceSlice, DeviceSliceMut};
use isa::wgmma::M64;
use isa::{Tf32, cvt, kernel, thread};

macro_rules! from_shared {
    ($($name:ident: $n:literal, $a:ty, $b:ty;)*) => {$(
        /// D = A·Bᵀ + D, both operands from shared memory.
        #[kernel(threads = 128, smem = SMEM)]
        pub fn $name(out: DeviceSliceMut<'_, u32>, bytes: DeviceSlice<'_, u32>, o: Operands) {
            multiply::<M64<$n>, $a, $b>(&out, &bytes, &o);
        }
    )*};
}
from_shared! {
    e4m3_n8: 8, F8E4M3, F8E4M3; e4m3_n64: 64, F8E4M3, F8E4M3; e4m3_n256: 256, F8E4M3, F8E4M3;
    e4m3_e5m2_n8: 8, F8E4M3, F8E5M2; e4m3_e5m2_n24: 24, F8E4M3, F8E5M2;
    e4m3_e5m2_n136: 136, F8E4M3, F8E5M2;
    e5m2_e4m3_n64: 64, F8E5M2, F8E4M3; e5m2_e4m3_n176: 176, F8E5M2, F8E4M3;
    e5m2_n8: 8, F8E5M2, F8E5M2; e5m2_n64: 64, F8E5M2, F8E5M2;
    s8_n8: 8, i8, i8; s8_n24: 24, i8, i8; s8_n64: 64, i8, i8; s8_n144: 144, i8, i8; s8_n256: 256, i8, i8;
    tf32_n8: 8, Tf32, Tf32; tf32_n24: 24, Tf32, Tf32; tf32_n64: 64, Tf32, Tf32;
    tf32_n136: 136, Tf32, Tf32; tf32_n256: 256, Tf32, Tf32;
}

macro_rules! from_registers {
    ($($name:ident: $n:literal, $a:ty, $b:ty;)*) => {$(
        /// One step with A in registers: word `4 tid + r` of `a` is register r of thread tid.
        #[kernel(threads = 128, smem = SMEM)]
        pub fn $name(
            out: DeviceSliceMut<'_, u32>,
            a: DeviceSlice<'_, u32>,
            bytes: DeviceSlice<'_, u32>,
            o: Operands,
        ) {
            multiply_rs::<M64<$n>, $a, $b>(&out, &a, &bytes, &o);
        }
    )*};
}
from_registers! {
    e4m3_rs_n64: 64, F8E4M3, F8E4M3; e4m3_e5m2_rs_n8: 8, F8E4M3, F8E5M2;
    e5m2_e4m3_rs_n136: 136, F8E5M2, F8E4M3; e5m2_rs_n24: 24, F8E5M2, F8E5M2;
    s8_rs_n8: 8, i8, i8; s8_rs_n64: 64, i8, i8; tf32_rs_n8: 8, Tf32, Tf32; tf32_rs_n64: 64, Tf32, Tf32;
}

/// Words that [`rounded`](fn@rounded) writes per number.
pub const ROUNDED: usize = 3;

/// Each float whose bits `from` holds: in the low half of a pair of e4m3 and in the high half of a pair of
/// e5m2, beside 1, and as tf32.
#[kernel(threads = 128)]
pub fn rounded(out: DeviceSliceMut<'_, u32>, from: DeviceSlice<'_, u32>) {
    let mut i = thread::thread_idx_x() as usize;
    while let Some(bits) = from.get(i) {
        let x = f32::from_bits(bits);
        out.set(ROUNDED * i, cvt::e4m3x2(x, 1.0).into());
        out.set(ROUNDED * i + 1, cvt::e5m2x2(1.0, x).into());
        out.set(ROUNDED * i + 2, cvt::tf32(x).to_bits());
        i += 128;
    }
}

/// Words that [`widened`](fn@widened) writes per byte.
pub const WIDENED: usize = 2;

/// Each byte as e4m3 and as e5m2: the pairs of f16 of the byte below its complement.
#[kernel(threads = 128)]
pub fn widened(out: DeviceSliceMut<'_, u32>) {
    let mut byte = thread::thread_idx_x();
    while byte < 256 {
        let pair = (byte | (byte ^ 0xff) << 8) as u16;
        out.set(WIDENED * byte as usize, cvt::e4m3x2_to_f16x2(pair));
        out.set(WIDENED * byte as usize + 1, cvt::e5m2x2_to_f16x2(pair));
        byte += 128;
    }
}
