//! Conversions: known values, and every 16-bit float there and back.
#![allow(missing_docs)]

use half::{bf16, f16};
use isa::cvt::{bf16x2, bf16x2_to_f32, f16x2, f16x2_to_f32};

/// 2^`e`.
fn pow2(e: i32) -> f32 {
    f32::powi(2.0, e)
}

#[test]
fn the_first_argument_is_the_low_half() {
    assert_eq!(bf16x2(1.0, -2.0), 0xc000_3f80);
    assert_eq!(f16x2(1.0, -2.0), 0xc000_3c00);
    assert_eq!(bf16x2_to_f32(0xc000_3f80).map(f32::to_bits), [1.0f32, -2.0].map(f32::to_bits));
    assert_eq!(f16x2_to_f32(0xc000_3c00).map(f32::to_bits), [1.0f32, -2.0].map(f32::to_bits));
}

#[test]
fn ties_go_to_even() {
    // bf16 has 7 bits after the point: 1 + 2^-8 lies between 1 and 1 + 2^-7.
    assert_eq!(bf16x2(1.0 + pow2(-8), 1.0 + 3.0 * pow2(-8)), 0x3f82_3f80);
    assert_eq!(bf16x2(1.0 + pow2(-8) + pow2(-20), 1.0 + pow2(-8) - pow2(-20)), 0x3f80_3f81);
    // f16 has 10.
    assert_eq!(f16x2(1.0 + pow2(-11), 1.0 + 3.0 * pow2(-11)), 0x3c02_3c00);
    assert_eq!(f16x2(1.0 + pow2(-11) + pow2(-20), 1.0 + pow2(-11) - pow2(-20)), 0x3c00_3c01);
}

#[test]
fn ends_of_the_ranges() {
    // The largest f16 is 65504; from 65520 on it is an infinity.
    assert_eq!(f16x2(65504.0, 65519.0), 0x7bff_7bff);
    assert_eq!(f16x2(65520.0, f32::NEG_INFINITY), 0xfc00_7c00);
    // Subnormal f16: 2^-24 is the least, half of it is a tie with zero.
    assert_eq!(f16x2(pow2(-24), pow2(-25)), 0x0000_0001);
    assert_eq!(f16x2(-pow2(-25) * 1.5, -0.0), 0x8000_8001);
    // bf16 reaches as far as f32, but its largest is less than f32's.
    assert_eq!(bf16x2(f32::MAX, f32::MIN_POSITIVE), 0x0080_7f80);
    assert_eq!(bf16x2(-0.0, f32::INFINITY), 0x7f80_8000);
}

#[test]
fn nan_stays_nan() {
    for [lo, hi] in [
        bf16x2_to_f32(bf16x2(f32::NAN, -f32::NAN)),
        f16x2_to_f32(f16x2(f32::NAN, -f32::NAN)),
        // A NaN whose payload lies in the bits that are cut off.
        bf16x2_to_f32(bf16x2(f32::from_bits(0x7f80_0001), f32::from_bits(0xff80_0001))),
    ] {
        assert!(lo.is_nan() && hi.is_nan());
    }
}

#[test]
fn every_16_bit_float_there_and_back() {
    for bits in 0..=u16::MAX {
        let both = u32::from(bits) << 16 | u32::from(bits);
        let [lo, hi] = bf16x2_to_f32(both);
        assert_eq!(lo.to_bits(), hi.to_bits());
        if !bf16::from_bits(bits).is_nan() {
            assert_eq!(lo.to_bits(), bf16::from_bits(bits).to_f32().to_bits(), "bf16 {bits:#06x}");
            assert_eq!(bf16x2(lo, hi), both, "bf16 {bits:#06x}");
        }
        let [lo, hi] = f16x2_to_f32(both);
        assert_eq!(lo.is_nan(), f16::from_bits(bits).is_nan());
        if !lo.is_nan() {
            assert_eq!(lo.to_bits(), f16::from_bits(bits).to_f32().to_bits(), "f16 {bits:#06x}");
            assert_eq!(f16x2(lo, hi), both, "f16 {bits:#06x}");
        }
    }
}
