//! tf32 as an element type of tensors.

/// A tf32 in the 32 bits of an f32: f32's range, and ten bits of fraction.
///
/// The tensor core does not read the 13 lowest bits. A conversion therefore rounds, as `cvt.rna.tf32.f32`
/// does ([`crate::cvt::tf32`]).
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Default)]
pub struct Tf32(f32);

impl Tf32 {
    /// Rounds to the nearest tf32; ties go away from zero.
    #[must_use]
    pub const fn from_f32(x: f32) -> Self {
        if x.is_nan() {
            // Not of `x`'s bits: without the lowest it might be an infinity.
            return Self(f32::NAN);
        }
        if x.is_infinite() {
            return Self(x);
        }
        // A carry from the fraction goes into the exponent, and makes the largest numbers infinite.
        Self(f32::from_bits((x.to_bits() + 0x1000) & !0x1fff))
    }
    /// Makes the number from its bits. The 13 lowest are not read.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(f32::from_bits(bits))
    }
    /// The same number as f32.
    #[must_use]
    pub const fn to_f32(self) -> f32 {
        self.0
    }
    /// Its bits, which are those of the f32.
    #[must_use]
    pub const fn to_bits(self) -> u32 {
        self.0.to_bits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the definition: the nearer of the neighbours whose 13 lowest bits are zero.
    #[test]
    fn rounds_to_the_nearer_neighbour() {
        let mut bits = 0x9e37_79b9u32;
        for _ in 0..10_000 {
            bits = bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let x = f32::from_bits(bits);
            if !x.is_finite() || x.abs() > 1e38 {
                continue;
            }
            let below = f32::from_bits(bits & !0x1fff);
            let above = f32::from_bits((bits & !0x1fff) + 0x2000);
            let [from_below, from_above] =
                [below, above].map(|y| (f64::from(x) - f64::from(y)).abs());
            let want = if from_below < from_above { below } else { above };
            assert_eq!(Tf32::from_f32(x).to_bits(), want.to_bits(), "{x:e}");
        }
        assert_eq!(Tf32::from_f32(f32::MAX).to_bits(), f32::INFINITY.to_bits());
        assert_eq!(Tf32::from_f32(f32::NEG_INFINITY).to_bits(), f32::NEG_INFINITY.to_bits());
        let nan = Tf32::from_f32(f32::from_bits(0x7f80_0001)).to_bits();
        assert!(f32::from_bits(nan & !0x1fff).is_nan());
    }
}
