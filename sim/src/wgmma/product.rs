//! The product of wgmma's operands, and its addition to accumulators.
//!
//! Sums of bf16, f16 and tf32: the products of an instruction are summed in f32, then the accumulator is
//! added. Sums of 8-bit integers are exact. Those of 8-bit floats are in [`super::short`].

use super::operand::OperandType;
use float8::{F8E4M3, F8E5M2};
use half::f16;

/// The element types of A and of B.
pub(crate) type Types = [OperandType; 2];

/// Turns bytes of an operand into floats, which hold every element exactly.
pub(crate) type Decode = fn(&[u8], &mut [f32]);

/// The bits of f32 that tf32 has.
const TF32: u32 = !0x1fff;

/// The values of all bytes.
static E4M3: [f32; 256] = {
    let (mut all, mut byte) = ([0.0; 256], 0);
    while byte < 256 {
        all[byte] = F8E4M3::from_bits(byte as u8).to_f32();
        byte += 1;
    }
    all
};
static E5M2: [f32; 256] = {
    let (mut all, mut byte) = ([0.0; 256], 0);
    while byte < 256 {
        all[byte] = F8E5M2::from_bits(byte as u8).to_f32();
        byte += 1;
    }
    all
};

/// The values of e2m1, by their codes.
const E2M1: [f32; 16] =
    [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];

/// The decoder of an element type.
pub(crate) fn decoder(dtype: OperandType) -> Decode {
    fn with<const BYTES: usize>(bytes: &[u8], out: &mut [f32], f: impl Fn([u8; BYTES]) -> f32) {
        for (o, b) in out.iter_mut().zip(bytes.as_chunks().0) {
            *o = f(*b);
        }
    }
    match dtype {
        OperandType::Bf16 => |b, o| {
            with(b, o, |h| f32::from_bits(u32::from(u16::from_le_bytes(h)) << 16));
        },
        OperandType::F16 => |b, o| with(b, o, |h| f16::from_le_bytes(h).to_f32()),
        OperandType::Tf32 => |b, o| with(b, o, |w| f32::from_bits(u32::from_le_bytes(w) & TF32)),
        OperandType::E4m3 => |b, o| with(b, o, |[byte]| E4M3[usize::from(byte)]),
        OperandType::E5m2 => |b, o| with(b, o, |[byte]| E5M2[usize::from(byte)]),
        OperandType::S8 => |b, o| with(b, o, |[byte]| f32::from(byte.cast_signed())),
        OperandType::E2m1 => |b, o| {
            for (pair, byte) in o.chunks_exact_mut(2).zip(b) {
                pair[0] = E2M1[usize::from(byte & 15)];
                pair[1] = E2M1[usize::from(byte >> 4)];
            }
        },
    }
}

/// Decodes 16 bytes into every `step`th of `out`.
pub(crate) fn spread(decode: Decode, bytes: &[u8], out: &mut [f32], step: usize, elements: usize) {
    if step == 1 {
        return decode(bytes, &mut out[..elements]);
    }
    let mut values = [0.0; 32];
    decode(bytes, &mut values);
    for (out, value) in out.iter_mut().step_by(step).zip(&values[..elements]) {
        *out = *value;
    }
}

/// A from registers, a slab of 16 rows per warp. A register has E elements of 32 bits in all: register i
/// of lane l holds columns `E (l % 4) + 4 E (i / 2)` and on of row `l / 4 + 8 (i % 2)`.
///
/// PTX manual, *Register Fragments* of `wgmma.m64nNk8`, `.m64nNk16` and `.m64nNk32`.
pub(crate) fn from_fragments(fragments: &[[u32; 4]], dtype: OperandType, a: &mut [f32]) {
    let (decode, k) = (decoder(dtype), dtype.k() as usize);
    let elements = k / 8;
    for (t, regs) in fragments.iter().enumerate() {
        for (i, r) in regs.iter().enumerate() {
            let row = t / 32 * 16 + t % 32 / 4 + 8 * (i % 2);
            let col = elements * (t % 4 + 4 * (i / 2));
            decode(&r.to_le_bytes(), &mut a[row * k + col..][..elements]);
        }
    }
}

/// `d = a * b`: a is 64 by k, b is k by n, all row-major, k is 8, 16 or 32.
pub(crate) fn product(a: &[f32], b: &[f32], n: usize, d: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { product_avx2(a, b, n, d) };
    }
    product_with::<8>(a, b, n, d);
}

/// The same in wider vectors. No product is fused with its sum, so each element is the same.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn product_avx2(a: &[f32], b: &[f32], n: usize, d: &mut [f32]) {
    if n.is_multiple_of(16) {
        product_with::<16>(a, b, n, d);
    } else {
        product_with::<8>(a, b, n, d);
    }
}

/// `BLOCK` columns at a time, of which n is a multiple.
#[inline(always)] // Into callers with other instruction sets.
fn product_with<const BLOCK: usize>(a: &[f32], b: &[f32], n: usize, d: &mut [f32]) {
    match a.len() / 64 {
        8 => product_of::<BLOCK, 8>(a, b, n, d),
        16 => product_of::<BLOCK, 16>(a, b, n, d),
        _ => product_of::<BLOCK, 32>(a, b, n, d),
    }
}

#[inline(always)]
fn product_of<const BLOCK: usize, const K: usize>(a: &[f32], b: &[f32], n: usize, d: &mut [f32]) {
    for (rows, d) in a.chunks_exact(K * 4).zip(d.chunks_exact_mut(4 * n)) {
        for col in (0..n).step_by(BLOCK) {
            // Four rows at a time: each part of b is loaded once for all of them.
            let mut sum = [[0.0f32; BLOCK]; 4];
            for k in 0..K {
                let b: &[f32; BLOCK] =
                    b[k * n + col..][..BLOCK].try_into().expect("n is a multiple of it");
                for (r, sum) in sum.iter_mut().enumerate() {
                    let x = rows[r * K + k];
                    for (s, &y) in sum.iter_mut().zip(b) {
                        *s += x * y;
                    }
                }
            }
            for (r, sum) in sum.iter().enumerate() {
                d[r * n + col..][..BLOCK].copy_from_slice(sum);
            }
        }
    }
}

/// Calls `f` with four registers of each thread from `first` on, and with the elements of a matrix of 64 by n
/// that belong to them.
///
/// PTX manual, *wgmma D fragments*: thread t has rows `16 (t / 32) + (t % 32) / 4` and + 8; register
/// `4 j + 2 h + e` is row half h, column `8 j + 2 (t % 4) + e`.
#[inline(always)] // Into loops over the accumulators of a warp group.
pub(crate) fn for_each_quad(
    matrix: &[f32],
    n: usize,
    first: usize,
    values: &mut [u32],
    mut f: impl FnMut(&mut [u32], [f32; 4]),
) {
    for (t, part) in (first..).zip(values.chunks_exact_mut(n / 2)) {
        let row = t / 32 * 16 + t % 32 / 4;
        let half = |row: usize| matrix[row * n..][..n].chunks_exact(8);
        let at = t % 4 * 2;
        for (part, (top, bottom)) in part.chunks_exact_mut(4).zip(half(row).zip(half(row + 8))) {
            f(part, [top[at], top[at + 1], bottom[at], bottom[at + 1]]);
        }
    }
}

/// Adds a product of 64 by n to accumulators of f32, given as bits, or replaces these without `scale_d`.
pub(crate) fn add(product: &[f32], n: usize, scale_d: bool, first: usize, values: &mut [u32]) {
    for_each_quad(product, n, first, values, |part, new| {
        for (d, new) in part.iter_mut().zip(new) {
            *d = if scale_d { f32::from_bits(*d) + new } else { new }.to_bits();
        }
    });
}

/// The same of accumulators of s32, which wrap around. The product of two bytes has at most 16 bits, so
/// that f32 holds the sum of 32 of them.
pub(crate) fn add_s32(product: &[f32], n: usize, scale_d: bool, first: usize, values: &mut [u32]) {
    for_each_quad(product, n, first, values, |part, new| {
        for (d, new) in part.iter_mut().zip(new) {
            let before = if scale_d { *d } else { 0 };
            *d = before.wrapping_add((new as i32).cast_unsigned());
        }
    });
}

#[cfg(test)]
mod tests;
