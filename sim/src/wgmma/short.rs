//! Sums of products of 8-bit floats, which the tensor core of sm_90 keeps short.
//!
//! An instruction adds its 32 products and the accumulator at once, as numbers of 13 bits behind the point.
//! The point is where the largest of the 33 has it: the bits of the others below that are cut off, and so
//! are those of the result below the 13th of its fraction. What is cut off is not rounded, so sums of many
//! numbers of one sign come out too small, by a fifth at K = 16384.
//!
//! The exponent of a product is the sum of its factors' exponents, and those of subnormal factors are the
//! least of their types. No manual says any of this. It is what tests of the chip have found (P. Xie et al.,
//! *MMA-Sim: Bit-Accurate Reference Model of Tensor Cores and Matrix Cores*, 2025; DeepSeek-AI, *DeepSeek-V3
//! Technical Report*, 2024, section 3.5.2), and what `conformance` compares with the chip.

use super::operand::OperandType;
use super::product::for_each_pair;

/// Products of an instruction.
const K: usize = 32;
/// 2^13: bits behind the point of the largest number.
const POINT: f32 = 8192.0;
/// Bits of f32's fraction that a sum keeps.
const KEPT: u32 = !0x3ff;
/// f32's exponent.
const EXPONENT: u32 = 0x7f80_0000;
/// The NaN that a sum becomes.
const NAN: u32 = 0x7fff_ffff;

/// Whether sums of these products are short.
pub(crate) fn is_short(dtype: OperandType) -> bool {
    matches!(dtype, OperandType::E4m3 | OperandType::E5m2)
}

/// The power of two of the least exponent of a type's normal numbers.
fn least(dtype: OperandType) -> f32 {
    if dtype == OperandType::E4m3 { 1.0 / 64.0 } else { 1.0 / 16384.0 }
}

/// The elements of A or B, and the powers of two of their exponents; 0 for a zero.
#[derive(Default)]
pub(crate) struct Factors {
    powers: Vec<f32>,
}

impl Factors {
    /// Takes the exponents of elements.
    pub fn take(&mut self, elements: &[f32], dtype: OperandType) {
        let least = least(dtype);
        self.powers.clear();
        self.powers.extend(elements.iter().map(|&x| {
            let power = f32::from_bits(x.to_bits() & EXPONENT);
            // Of infinities and NaNs, whatever is finite.
            if x == 0.0 { 0.0 } else { power.clamp(least, 65536.0) }
        }));
    }
}

/// A's or B's rows of 32 elements, with their powers.
pub(crate) type Rows<'a> = (&'a [f32], &'a Factors);

/// Adds the products of 64 rows of A and n of B to accumulators of f32, given as bits, or replaces these
/// without `scale_d`: the threads' from `first` on, each in the order of its registers.
pub(crate) fn add(a: Rows, b: Rows, n: usize, scale_d: bool, first: usize, values: &mut [u32]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { add_avx2(a, b, n, scale_d, first, values) };
    }
    add_with(a, b, n, scale_d, first, values);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn add_avx2(a: Rows, b: Rows, n: usize, scale_d: bool, first: usize, values: &mut [u32]) {
    add_with(a, b, n, scale_d, first, values);
}

#[inline(always)] // Into callers with other instruction sets.
fn add_with(a: Rows, b: Rows, n: usize, scale_d: bool, first: usize, values: &mut [u32]) {
    fn row<'a>((values, factors): Rows<'a>, row: usize) -> [&'a [f32; K]; 2] {
        [values, &factors.powers].map(|all| &all.as_chunks().0[row])
    }
    for_each_pair(n, first, values, |i, j, pair| {
        for (d, j) in pair.iter_mut().zip(j..) {
            let before = if scale_d { f32::from_bits(*d) } else { 0.0 };
            *d = sum(row(a, i), row(b, j), before);
        }
    });
}

/// The sum of 32 products and an accumulator, as bits.
#[inline(always)]
fn sum([a, a_powers]: [&[f32; K]; 2], [b, b_powers]: [&[f32; K]; 2], before: f32) -> u32 {
    // Eight sums side by side. Their order does not matter: they are exact.
    const LANES: usize = 8;
    let lanes = |x: &[f32; K], y: &[f32; K], lane: usize, i: usize| {
        x[LANES * i + lane] * y[LANES * i + lane]
    };
    let mut largest = [0.0f32; LANES];
    for i in 0..K / LANES {
        for (lane, largest) in largest.iter_mut().enumerate() {
            let power = lanes(a_powers, b_powers, lane, i);
            *largest = if power > *largest { power } else { *largest };
        }
    }
    let of_products = largest.into_iter().fold(0.0f32, f32::max);
    if of_products == 0.0 || !before.is_finite() {
        // Zeros alone, or a NaN or an infinity that stays what it is.
        let products: f32 = (0..K).map(|k| a[k] * b[k]).sum();
        let sum = products + before;
        return if sum.is_nan() { NAN } else { sum.to_bits() & KEPT };
    }
    let largest = of_products.max(f32::from_bits(before.to_bits() & EXPONENT));
    let scale = POINT / largest;
    let mut sums = [0.0f32; LANES];
    for i in 0..K / LANES {
        for (lane, sum) in sums.iter_mut().enumerate() {
            *sum += (lanes(a, b, lane, i) * scale).trunc();
        }
    }
    let sum = (sums.into_iter().sum::<f32>() + (before * scale).trunc()) * (largest / POINT);
    if sum.is_nan() { NAN } else { sum.to_bits() & KEPT }
}

#[cfg(test)]
mod tests;
