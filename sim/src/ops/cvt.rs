//! Conversions, to nearest even. Pairs are packed with the first in the low half. A NaN becomes the
//! canonical one of its new type; but widening a bf16 only moves bits, and keeps a NaN as it is.

use crate::drive::current::given;
use crate::types::tf32;
use float8::{F8E4M3, F8E5M2};
use half::{bf16, f16};

/// The canonical NaN of both 8-bit types.
const NAN_8: u8 = 0x7f;
/// The canonical NaN of both 16-bit types.
const NAN_16: u16 = 0x7fff;
/// The canonical NaN of f32.
const NAN_32: u32 = 0x7fff_ffff;

/// The value, with the canonical NaN for every other.
pub(super) fn canonical(x: f32) -> f32 {
    // To the optimiser one NaN is as good as another, and it would give back `x`: what it does not
    // know to be the bits of a float it leaves alone.
    let bits = std::hint::black_box(x.to_bits());
    f32::from_bits(if bits << 1 > 0xff00_0000 { NAN_32 } else { bits })
}

fn to_bf16(x: f32) -> u16 {
    if x.is_nan() { NAN_16 } else { bf16::from_f32(x).to_bits() }
}

fn to_f16(x: f32) -> u16 {
    if x.is_nan() { NAN_16 } else { f16::from_f32(x).to_bits() }
}

fn from_f16(bits: u16) -> f32 {
    canonical(f16::from_bits(bits).to_f32())
}

fn pack(lo: u16, hi: u16) -> u32 {
    u32::from(lo) | u32::from(hi) << 16
}

/// With `.satfinite`: what is beyond the range becomes the largest number, infinities too.
fn to_e4m3(x: f32) -> u8 {
    if x.is_nan() { NAN_8 } else { F8E4M3::from_f32(x).to_bits() }
}

fn to_e5m2(x: f32) -> u8 {
    if x.is_nan() { NAN_8 } else { F8E5M2::from_f32(x).to_bits() }
}

/// Two bytes as f16, which has every value of both types.
fn to_f16x2(v: u16, to_f32: fn(u8) -> f32) -> u32 {
    let [lo, hi] = v.to_le_bytes().map(|byte| to_f16(to_f32(byte)));
    pack(lo, hi)
}

/// `cvt.rn.bf16x2.f32`
#[track_caller]
pub fn bf16x2(lo: f32, hi: f32) -> u32 {
    given("cvt.rn.bf16x2", lo.to_bits());
    given("cvt.rn.bf16x2", hi.to_bits());
    pack(to_bf16(lo), to_bf16(hi))
}

/// `cvt.rn.f16x2.f32`
#[track_caller]
pub fn f16x2(lo: f32, hi: f32) -> u32 {
    given("cvt.rn.f16x2", lo.to_bits());
    given("cvt.rn.f16x2", hi.to_bits());
    pack(to_f16(lo), to_f16(hi))
}

/// Both halves as f32
pub fn bf16x2_to_f32(v: u32) -> [f32; 2] {
    [f32::from_bits(v << 16), f32::from_bits(v & 0xffff_0000)]
}

/// Both halves as f32
pub fn f16x2_to_f32(v: u32) -> [f32; 2] {
    [from_f16(v as u16), from_f16((v >> 16) as u16)]
}

/// `cvt.rn.satfinite.e4m3x2.f32`
#[track_caller]
pub fn e4m3x2(lo: f32, hi: f32) -> u16 {
    given("cvt.rn.satfinite.e4m3x2", lo.to_bits());
    given("cvt.rn.satfinite.e4m3x2", hi.to_bits());
    u16::from_le_bytes([to_e4m3(lo), to_e4m3(hi)])
}

/// `cvt.rn.satfinite.e5m2x2.f32`
#[track_caller]
pub fn e5m2x2(lo: f32, hi: f32) -> u16 {
    given("cvt.rn.satfinite.e5m2x2", lo.to_bits());
    given("cvt.rn.satfinite.e5m2x2", hi.to_bits());
    u16::from_le_bytes([to_e5m2(lo), to_e5m2(hi)])
}

/// `cvt.rn.f16x2.e4m3x2`
pub fn e4m3x2_to_f16x2(v: u16) -> u32 {
    to_f16x2(v, |byte| F8E4M3::from_bits(byte).to_f32())
}

/// `cvt.rn.f16x2.e5m2x2`
pub fn e5m2x2_to_f16x2(v: u16) -> u32 {
    to_f16x2(v, |byte| F8E5M2::from_bits(byte).to_f32())
}

/// `cvt.rna.tf32.f32`: ties go away from zero.
#[track_caller]
pub fn tf32(x: f32) -> f32 {
    given("cvt.rna.tf32", x.to_bits());
    canonical(tf32::round(x))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_to_nearest_even_and_back() {
        assert_eq!(bf16x2_to_f32(bf16x2(1.0, -2.5)), [1.0, -2.5]);
        assert_eq!(f16x2_to_f32(f16x2(65504.0, 2f32.powi(-24))), [65504.0, 2f32.powi(-24)]);
        // Halfway between 1 and 1 + 2^-7 goes to the even one.
        assert_eq!(bf16x2(1.0 + 2f32.powi(-8), 0.0), 0x3f80);
        assert_eq!(bf16x2(1.0 + 3.0 * 2f32.powi(-8), 0.0), 0x3f82);
    }
    #[test]
    fn nans_become_canonical() {
        let odd = f32::from_bits(0xffc0_1234);
        assert_eq!(bf16x2(odd, 1.0), 0x3f80_7fff);
        assert_eq!(f16x2(1.0, odd), 0x7fff_3c00);
        assert_eq!(f16x2_to_f32(0x3c00_fe01).map(f32::to_bits), [0x7fff_ffff, 1f32.to_bits()]);
        assert_eq!(bf16x2_to_f32(0xffc1).map(f32::to_bits), [0xffc1_0000, 0]);
    }

    /// Each line: the bits of an f32, and those of the e4m3 and the e5m2 that it is rounded to.
    const ROUNDED: &str = include_str!("cvt/rounded.txt");

    fn bytes_of(line: &str) -> (u32, [u16; 2]) {
        let mut words = line.split(' ').map(|w| u32::from_str_radix(w, 16).expect("hexadecimal"));
        let mut next = || words.next().expect("three words");
        (next(), [next() as u16, next() as u16])
    }

    /// Against `ml_dtypes`, which is what JAX and TensorFlow use.
    #[test]
    fn eight_bit_floats_round_as_an_independent_table_says() {
        let lines: Vec<&str> = ROUNDED.lines().filter(|l| !l.starts_with('#')).collect();
        assert!(lines.len() > 2000, "{} lines", lines.len());
        for line in lines {
            let (bits, [e4m3, e5m2]) = bytes_of(line);
            let x = f32::from_bits(bits);
            assert_eq!(e4m3x2(x, 1.0), 0x3800 | e4m3, "{x:e} as e4m3");
            assert_eq!(e5m2x2(0.0, x), e5m2 << 8, "{x:e} as e5m2");
        }
    }

    /// Every value is its own rounding, and f16 has it.
    #[test]
    fn eight_bit_floats_and_back() {
        for byte in 0..=255u8 {
            let both = u16::from_le_bytes([byte, 0]);
            let [x, y] = [e4m3x2_to_f16x2(both), e5m2x2_to_f16x2(both)].map(f16x2_to_f32);
            let magnitude = byte & 0x7f;
            let nan = |x: f32| x.to_bits() == NAN_32;
            let [as_e4m3, as_e5m2] = [e4m3x2(x[0], 0.0), e5m2x2(y[0], 0.0)];
            match magnitude {
                0x7f => assert!(nan(x[0]) && as_e4m3 == 0x7f),
                _ => assert_eq!(as_e4m3, both, "e4m3 {byte:#x}"),
            }
            match magnitude {
                0x7d.. => assert!(nan(y[0]) && as_e5m2 == 0x7f),
                0x7c => assert_eq!((y[0].abs(), as_e5m2 & 0x7f), (f32::INFINITY, 0x7b)),
                _ => assert_eq!(as_e5m2, both, "e5m2 {byte:#x}"),
            }
        }
    }

    #[test]
    fn tf32_has_ten_bits_of_fraction() {
        let bits = |x: u32| tf32(f32::from_bits(x)).to_bits();
        assert_eq!([bits(0x3f80_0fff), bits(0x3f80_1000)], [0x3f80_0000, 0x3f80_2000]);
        assert_eq!([bits(0xbf80_3000), bits(0xbf80_2fff)], [0xbf80_4000, 0xbf80_2000]);
        assert_eq!([bits(0x7f7f_f000), bits(0xff80_0000)], [0x7f80_0000, 0xff80_0000]);
        assert_eq!([bits(0x0000_0fff), bits(0x8000_1000)], [0, 0x8000_2000]);
        assert_eq!(bits(0xffc0_1234), NAN_32);
    }
}
