//! Division by numbers that the host knows before the launch.
#![forbid(unsafe_code)]

use isa::kernel::KernelArg;

/// A divisor with precomputed constants, so that a division takes two multiplications. (CUTLASS `FastDivmod`.)
///
/// Otherwise a division takes the device some twenty dependent instructions, and a CTA needs two divisions before its
/// first load. CUTLASS shifts where this code multiplies a second time. LLVM masks the distance of a shift, and the
/// masked distance would occupy a register for the whole kernel.
///
/// ```
/// use warpipe_gpu_kernels::gemm::divmod::FastDivmod;
/// assert_eq!(FastDivmod::new(24).divmod(1000), (41, 16));
/// ```
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, KernelArg)]
pub struct FastDivmod {
    divisor: u32,
    /// ceil(2^(31 + `bits`) / `divisor`), where `bits` = ceil(log2(`divisor`)).
    multiplier: u32,
    /// 2^(31 - `bits`).
    unit: u32,
}

impl FastDivmod {
    /// Dividends must be below this.
    pub const DIVIDENDS: u32 = 1 << 30;

    /// The constants for `divisor`, which is at most 2^31. 0 counts as 1.
    #[cfg(not(target_arch = "nvptx64"))]
    #[must_use]
    pub const fn new(divisor: u32) -> Self {
        let divisor = if divisor == 0 { 1 } else { divisor };
        // The quotient is exact for dividends below 2^30, because rounding up makes the multiplier too large by less
        // than 2^-31 of itself.
        let bits = 32 - (divisor - 1).leading_zeros();
        let multiplier = (1u64 << (31 + bits)).div_ceil(divisor as u64) as u32;
        Self { divisor, multiplier, unit: 1 << (31 - bits) }
    }

    /// The divisor.
    #[isa::forceinline]
    pub const fn divisor(self) -> u32 {
        self.divisor
    }

    /// Quotient and remainder of `dividend`, which is below [`DIVIDENDS`](Self::DIVIDENDS).
    #[isa::forceinline]
    pub const fn divmod(self, dividend: u32) -> (u32, u32) {
        let quotient = high(high(dividend << 2, self.multiplier), self.unit);
        (quotient, dividend - quotient * self.divisor)
    }
}

/// The upper half of a product. (PTX `mul.hi.u32`.)
#[isa::forceinline]
const fn high(a: u32, b: u32) -> u32 {
    ((a as u64 * b as u64) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LARGEST: u32 = FastDivmod::DIVIDENDS - 1;

    #[test]
    fn it_divides_at_the_edges() {
        for divisor in (1..2000).chain([LARGEST / 2, LARGEST, LARGEST + 1, 1 << 31]) {
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
        fn it_divides(dividend in 0..=LARGEST, divisor in 1..=1u32 << 31, few in 0u32..32) {
            let divisor = (divisor >> few).max(1);
            let right = (dividend / divisor, dividend % divisor);
            prop_assert_eq!(FastDivmod::new(divisor).divmod(dividend), right);
        }
    }
}
