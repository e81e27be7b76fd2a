//! Division by numbers that the host knows.
#![forbid(unsafe_code)]

/// A divisor, and what replaces the division: a multiplication and a shift. A division takes the device
/// some twenty instructions, one after the other, and a CTA needs two before its first load.
/// (CUTLASS `FastDivmod`.)
///
/// ```
/// use gpu_kernels::gemm::divmod::FastDivmod;
/// assert_eq!(FastDivmod::new(24).divmod(1000), (41, 16));
/// ```
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FastDivmod {
    divisor: u32,
    /// 2 to the power of `shift` over the divisor, rounded up.
    multiplier: u32,
    shift: u32,
}

impl FastDivmod {
    /// Divides by `divisor`, or by 1 if that is 0.
    #[cfg(not(target_arch = "nvptx64"))]
    #[must_use]
    pub const fn new(divisor: u32) -> Self {
        let divisor = if divisor == 0 { 1 } else { divisor };
        // The quotient is right for dividends below 2^31: the multiplier is too large by less than one
        // of 2^31 parts of itself.
        let shift = 31 + (32 - (divisor - 1).leading_zeros());
        let multiplier = (1u64 << shift).div_ceil(divisor as u64) as u32;
        Self { divisor, multiplier, shift }
    }

    /// What it divides by.
    #[inline(always)]
    pub const fn divisor(self) -> u32 {
        self.divisor
    }

    /// Quotient and remainder of `dividend`, which is below 2^31.
    #[inline(always)]
    pub const fn divmod(self, dividend: u32) -> (u32, u32) {
        let quotient = ((dividend as u64 * self.multiplier as u64) >> self.shift) as u32;
        (quotient, dividend - quotient * self.divisor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LARGEST: u32 = (1 << 31) - 1;

    #[test]
    fn it_divides_at_the_edges() {
        for divisor in (1..2000).chain([LARGEST / 2, LARGEST, 1 << 31, u32::MAX]) {
            let by = FastDivmod::new(divisor);
            let multiples = [0, 1, 2, 3, LARGEST / divisor].map(|i| divisor.saturating_mul(i));
            for dividend in
                multiples.into_iter().flat_map(|m| [m.max(1) - 1, m, m.saturating_add(1)])
            {
                let dividend = dividend.min(LARGEST);
                let right = (dividend / divisor, dividend % divisor);
                assert_eq!(by.divmod(dividend), right, "{dividend} / {divisor}");
            }
        }
        assert_eq!(FastDivmod::new(0).divmod(7), (7, 0));
    }

    proptest! {
        #[test]
        fn it_divides(dividend in 0..=LARGEST, divisor in 1..=u32::MAX, few in 0u32..32) {
            let divisor = (divisor >> few).max(1);
            let right = (dividend / divisor, dividend % divisor);
            prop_assert_eq!(FastDivmod::new(divisor).divmod(dividend), right);
        }
    }
}
