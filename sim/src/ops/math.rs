//! Arithmetic: a pure function of its operands.

use super::cvt::canonical;
use crate::drive::current::given;

/// `sqrt.rn.f32`; where it is not a number, the canonical NaN
#[track_caller]
pub fn sqrt(x: f32) -> f32 {
    given("sqrt", x.to_bits());
    canonical(x.sqrt())
}

/// `tanh.approx.f32`, to the nearest `f32`; the chip's relative error is at most 2^-11.
#[track_caller]
pub fn tanh_approx(x: f32) -> f32 {
    given("tanh_approx", x.to_bits());
    canonical(x.tanh())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_root_is_rounded_once() {
        // 2 has no root in f32: the nearest is 0x3fb504f3 (IEEE 754, to nearest even).
        assert_eq!(super::sqrt(2.0).to_bits(), 0x3fb5_04f3);
        assert_eq!(super::sqrt(std::hint::black_box(-1.0)).to_bits(), 0x7fff_ffff);
    }
}
