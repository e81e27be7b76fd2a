//! Conversions: to nearest even, pairs packed with the first in the low half.

use half::{bf16, f16};

fn pack(lo: u16, hi: u16) -> u32 {
    u32::from(lo) | u32::from(hi) << 16
}

/// `cvt.rn.bf16x2.f32`
pub fn bf16x2(lo: f32, hi: f32) -> u32 {
    pack(bf16::from_f32(lo).to_bits(), bf16::from_f32(hi).to_bits())
}

/// `cvt.rn.f16x2.f32`
pub fn f16x2(lo: f32, hi: f32) -> u32 {
    pack(f16::from_f32(lo).to_bits(), f16::from_f32(hi).to_bits())
}

/// Both halves as f32
pub fn bf16x2_to_f32(v: u32) -> [f32; 2] {
    [f32::from_bits(v << 16), f32::from_bits(v & 0xffff_0000)]
}

/// Both halves as f32
pub fn f16x2_to_f32(v: u32) -> [f32; 2] {
    [f16::from_bits(v as u16).to_f32(), f16::from_bits((v >> 16) as u16).to_f32()]
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
}
