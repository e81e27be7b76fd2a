//! e2m1, packed in pairs, as an element type of tensors.

/// Two e2m1 in a byte, neighbours along K: the first in the four low bits. (PTX `.e2m1x2`; CUDA `__nv_fp4x2_e2m1`; PyTorch
/// `float4_e2m1fn_x2`.)
///
/// An e2m1 has a sign, two bits of exponent and one of fraction: 0, 0.5, 1, 1.5, 2, 3, 4 and 6, and no infinity and no NaN.
/// A tensor of `rows` x `K` numbers is one of `rows` x `K / 2` elements of this type.
///
/// ```
/// use warpipe_isa::E2m1x2;
/// let pair = E2m1x2::from_f32([1.5, -100.0]);
/// assert_eq!((pair.to_bits(), pair.to_f32()), (0xf3, [1.5, -6.0]));
/// ```
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct E2m1x2(u8);

/// The numbers without their sign, by their codes.
const VALUES: [f32; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];

impl E2m1x2 {
    /// Rounds both to the nearest e2m1; ties go to the even code, and what is beyond 6 becomes 6. A NaN becomes 6. (PTX
    /// `cvt.rn.satfinite.e2m1x2.f32`.)
    #[must_use]
    pub const fn from_f32([first, second]: [f32; 2]) -> Self {
        Self(code(first) | code(second) << 4)
    }
    /// Makes the pair from its bits.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }
    /// The same numbers as f32, the first in the low bits.
    #[must_use]
    pub const fn to_f32(self) -> [f32; 2] {
        [value(self.0 & 15), value(self.0 >> 4)]
    }
    /// Its bits.
    #[must_use]
    pub const fn to_bits(self) -> u8 {
        self.0
    }
}

const fn value(code: u8) -> f32 {
    let size = VALUES[(code & 7) as usize];
    if code & 8 == 0 { size } else { -size }
}

const fn code(x: f32) -> u8 {
    if x.is_nan() {
        return 7;
    }
    let size = x.abs();
    let mut code = 0;
    while code < 7 {
        let middle = f32::midpoint(VALUES[code as usize], VALUES[code as usize + 1]);
        // The even code has the middle.
        let nearest = if code & 1 == 0 { size <= middle } else { size < middle };
        if nearest {
            break;
        }
        code += 1;
    }
    code | if x.is_sign_negative() { 8 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the format's definition: (-1)^s * 2^(e - 1) * (1 + m / 2), and m / 2 with an exponent of zero.
    #[test]
    fn values_are_the_formats() {
        for bits in 0..=255_u8 {
            let of = |code: u8| {
                let (e, m) = (i32::from(code >> 1 & 3), f32::from(code & 1));
                let size = if e == 0 { m / 2.0 } else { 2.0_f32.powi(e - 1) * (1.0 + m / 2.0) };
                if code & 8 == 0 { size } else { -size }
            };
            let pair = E2m1x2::from_bits(bits);
            let want = [of(bits & 15), of(bits >> 4)];
            assert_eq!(pair.to_f32().map(f32::to_bits), want.map(f32::to_bits), "{bits:#x}");
            assert_eq!(E2m1x2::from_f32(pair.to_f32()), pair);
        }
    }

    #[test]
    fn rounds_to_the_nearest_with_ties_to_even() {
        let rounded = |x| E2m1x2::from_f32([x, 0.0]).to_f32()[0];
        let ties = [(0.25, 0.0), (0.75, 1.0), (1.25, 1.0), (1.75, 2.0), (2.5, 2.0), (3.5, 4.0)];
        for (x, to) in ties {
            assert_eq!((rounded(x), rounded(-x)), (to, -to), "{x}");
        }
        for i in -700_i16..=700 {
            let (x, got) = (f32::from(i) / 100.0, rounded(f32::from(i) / 100.0));
            let best = VALUES.iter().map(|v| (v - x.abs()).abs()).fold(f32::MAX, f32::min);
            assert!((got.abs() - x.abs()).abs() <= best, "{x}");
        }
        assert_eq!((rounded(5.0), rounded(f32::INFINITY), rounded(f32::NAN)), (4.0, 6.0, 6.0));
    }
}
