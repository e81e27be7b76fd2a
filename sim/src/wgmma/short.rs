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
use super::product::for_each_quad;

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

/// A sum without the bits that are not kept.
#[inline(always)]
fn short(sum: f32) -> f32 {
    f32::from_bits(if sum.is_nan() { NAN } else { sum.to_bits() & KEPT })
}

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

/// Elements of A or B, with their exponents: A by rows, B by rows along K.
pub(crate) type Elements<'a> = (&'a [f32], &'a Factors);

/// Adds the products of 64 rows of A and n columns of B to accumulators of f32, given as bits, or replaces
/// these without `scale_d`: the threads' from `first` on, each in the order of its registers.
pub(crate) fn add(
    a: Elements,
    b: Elements,
    n: usize,
    scale_d: bool,
    first: usize,
    values: &mut [u32],
) {
    // Row-major, as the operands are. Only rows of these threads are computed.
    let (mut sums, mut of_threads) = (vec![0.0; 64 * n], [false; 64]);
    for (t, part) in (first..).zip(values.chunks_exact(n / 2)) {
        let row = t / 32 * 16 + t % 32 / 4;
        (of_threads[row], of_threads[row + 8]) = (true, true);
        if !scale_d {
            continue;
        }
        for (i, pair) in part.as_chunks::<2>().0.iter().enumerate() {
            let at = (row + 8 * (i % 2)) * n + i / 2 * 8 + t % 4 * 2;
            sums[at..at + 2].copy_from_slice(&pair.map(f32::from_bits));
        }
    }
    // Most rows of a tile that hangs over are zeros, and their sums stay what they are.
    let finite = b.0.iter().all(|x| x.is_finite());
    for (row, sums) in sums.chunks_exact_mut(n).enumerate().filter(|(row, _)| of_threads[*row]) {
        let row = [a.0, &a.1.powers].map(|all| &all.as_chunks().0[row]);
        if finite && row[1].iter().all(|&power| power == 0.0) {
            for sum in sums {
                *sum = short(*sum + 0.0);
            }
        } else {
            add_row(row, [b.0, &b.1.powers], sums);
        }
    }
    for_each_quad(&sums, n, first, values, |part, new| {
        for (d, new) in part.iter_mut().zip(new) {
            *d = new.to_bits();
        }
    });
}

/// The elements of a row of A, and the powers of their exponents.
type Row<'a> = [&'a [f32; K]; 2];

/// Adds the products of a row of A and all columns of B to sums.
fn add_row(a: Row, b: [&[f32]; 2], sums: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { add_row_avx2(a, b, sums) };
    }
    add_row_with::<8>(a, b, sums);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn add_row_avx2(a: Row, b: [&[f32]; 2], sums: &mut [f32]) {
    if sums.len().is_multiple_of(16) {
        add_row_with::<16>(a, b, sums);
    } else {
        add_row_with::<8>(a, b, sums);
    }
}

/// Neighbouring elements of a row.
#[inline(always)]
fn columns<const BLOCK: usize>(all: &[f32], first: usize) -> &[f32; BLOCK] {
    all[first..][..BLOCK].try_into().expect("as many elements")
}

/// `BLOCK` columns at a time, of which there is a multiple.
#[inline(always)] // Into callers with other instruction sets.
fn add_row_with<const BLOCK: usize>([a, a_powers]: Row, b: [&[f32]; 2], sums: &mut [f32]) {
    let n = sums.len();
    for (col, sums) in (0..n).step_by(BLOCK).zip(sums.chunks_exact_mut(BLOCK)) {
        let mut products = [0.0f32; BLOCK];
        for (k, &power) in a_powers.iter().enumerate() {
            for (largest, other) in products.iter_mut().zip(columns::<BLOCK>(b[1], k * n + col)) {
                let power = power * other;
                *largest = if power > *largest { power } else { *largest };
            }
        }
        let (mut scales, mut units, mut news) = ([0.0; BLOCK], [0.0; BLOCK], [0.0f32; BLOCK]);
        for i in 0..BLOCK {
            let of_sum = f32::from_bits(sums[i].to_bits() & EXPONENT);
            let largest = if of_sum > products[i] { of_sum } else { products[i] };
            (scales[i], units[i]) = (POINT / largest, largest / POINT);
            news[i] = (sums[i] * scales[i]).trunc();
        }
        // The order of the additions does not matter: they are of whole numbers below 2^24.
        for (k, &x) in a.iter().enumerate() {
            let others = columns::<BLOCK>(b[0], k * n + col);
            for i in 0..BLOCK {
                news[i] += (x * others[i] * scales[i]).trunc();
            }
        }
        for i in 0..BLOCK {
            let new = if products[i] == 0.0 || !sums[i].is_finite() {
                // Zeros alone, or a NaN or an infinity that stays what it is.
                let products = (0..K).fold(0.0, |sum, k| sum + a[k] * b[0][k * n + col + i]);
                products + sums[i]
            } else {
                news[i] * units[i]
            };
            sums[i] = short(new);
        }
    }
}

#[cfg(test)]
mod tests;
