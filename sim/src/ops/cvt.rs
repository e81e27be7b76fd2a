//! Conversions, to nearest even. Pairs are packed with the first in the low half. A NaN becomes the
//! canonical one of its new type; but widening a bf16 only moves bits, and keeps a NaN as it is.

use crate::drive::current::given;
use half::{bf16, f16};

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
}
