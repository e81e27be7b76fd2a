//! Arithmetic: a pure function of its operands.
//!
//! An approximation of the chip is here the exact result, rounded to the nearest `f32`: computed in f64, or by an
//! operation of IEEE 754. It is within each error that the PTX manual allows. Subnormal numbers are kept, as they
//! are without `.ftz`; with it, they are zeros of their sign. What is not a number is the canonical NaN.

use super::cvt::canonical;
use crate::drive::current::{given, special};

/// Declares functions of one operand, each with the exact result in f64 or f32, and with what the time counts.
macro_rules! unary {
    ($time:ident: $($(#[$doc:meta])* $name:ident($x:ident) = $exact:expr;)+) => {$(
        $(#[$doc])*
        #[track_caller]
        pub fn $name($x: f32) -> f32 {
            given(stringify!($name), $x.to_bits());
            $time();
            canonical($exact)
        }
    )+};
}

/// The time counts nothing.
fn nothing() {}

unary! { nothing:
    /// `sqrt.rn.f32`
    sqrt(x) = x.sqrt();
    /// `abs.f32`
    abs(x) = x.abs();
    /// `cvt.rmi.f32.f32`
    floor(x) = x.floor();
}

unary! { special:
    /// `sqrt.approx.f32`; the chip's relative error is at most 2^-23
    sqrt_approx(x) = x.sqrt();
    /// `rsqrt.approx.f32`; the chip's relative error is at most 2^-22.9
    rsqrt_approx(x) = f64::from(x).sqrt().recip() as f32;
    /// `rcp.approx.f32`; the chip's error is at most 1 ulp
    rcp_approx(x) = x.recip();
    /// `rcp.approx.ftz.f32`; the chip's error is at most 1 ulp
    rcp_approx_ftz(x) = flushed(flushed(x).recip());
    /// `ex2.approx.f32`; the chip's result is at most 2 ulp from this one
    ex2_approx(x) = f64::from(x).exp2() as f32;
    /// `ex2.approx.ftz.f32`; the chip's result is at most 2 ulp from this one
    ex2_approx_ftz(x) = flushed(f64::from(flushed(x)).exp2() as f32);
    /// `lg2.approx.f32`; the chip's error is at most 2^-22, absolute between 0.5 and 2 and relative elsewhere
    lg2_approx(x) = log2(f64::from(x)) as f32;
    /// `tanh.approx.f32`; the chip's relative error is at most 2^-11
    tanh_approx(x) = f64::from(x).tanh() as f32;
}

/// A number whose subnormals are zeros of their sign.
fn flushed(x: f32) -> f32 {
    if x.is_subnormal() { 0f32.copysign(x) } else { x }
}

/// The logarithm, which is minus infinity for both zeros.
fn log2(x: f64) -> f64 {
    if x == 0.0 { f64::NEG_INFINITY } else { x.log2() }
}

/// `min.f32`
#[track_caller]
pub fn min(a: f32, b: f32) -> f32 {
    given("min", a.to_bits());
    given("min", b.to_bits());
    ordered(a, b).map_or_else(|only| only, |(least, _)| least)
}

/// `max.f32`
#[track_caller]
pub fn max(a: f32, b: f32) -> f32 {
    given("max", a.to_bits());
    given("max", b.to_bits());
    ordered(a, b).map_or_else(|only| only, |(_, greatest)| greatest)
}

/// `max.NaN.f32`
#[track_caller]
pub fn max_nan(a: f32, b: f32) -> f32 {
    given("max.NaN", a.to_bits());
    given("max.NaN", b.to_bits());
    if a.is_nan() || b.is_nan() { f32::from_bits(0x7fff_ffff) } else { max(a, b) }
}

/// The lesser and the greater of two numbers, -0 below +0. If one is NaN, the error is the other one; of two
/// NaNs it is the canonical one.
fn ordered(a: f32, b: f32) -> Result<(f32, f32), f32> {
    match (a.is_nan(), b.is_nan()) {
        (true, _) => Err(canonical(b)),
        (_, true) => Err(a),
        _ if a.total_cmp(&b).is_le() => Ok((a, b)),
        _ => Ok((b, a)),
    }
}

/// `fma.rn.f32`
#[track_caller]
pub fn fma(a: f32, b: f32, c: f32) -> f32 {
    given("fma", a.to_bits());
    given("fma", b.to_bits());
    given("fma", c.to_bits());
    canonical(a.mul_add(b, c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_rounded_once() {
        // 2 has no root in f32: the nearest is 0x3fb504f3 (IEEE 754, to nearest even).
        assert_eq!(sqrt(2.0).to_bits(), 0x3fb5_04f3);
        assert_eq!(sqrt(std::hint::black_box(-1.0)).to_bits(), 0x7fff_ffff);
    }

    /// The corner cases of the manual's tables.
    #[test]
    fn zeros_infinities_and_nan() {
        const NAN: u32 = 0x7fff_ffff;
        const INF: f32 = f32::INFINITY;
        type Row = (fn(f32) -> f32, [u32; 6]);
        let table: [Row; 7] = {
            let b = |values: [f32; 6]| values.map(|x| if x.is_nan() { NAN } else { x.to_bits() });
            // -Inf, -1, -0, +0, +Inf, NaN
            [
                (sqrt_approx, b([f32::NAN, f32::NAN, -0.0, 0.0, INF, f32::NAN])),
                (rsqrt_approx, b([f32::NAN, f32::NAN, -INF, INF, 0.0, f32::NAN])),
                (rcp_approx, b([-0.0, -1.0, -INF, INF, 0.0, f32::NAN])),
                (ex2_approx, b([0.0, 0.5, 1.0, 1.0, INF, f32::NAN])),
                (lg2_approx, b([f32::NAN, f32::NAN, -INF, -INF, INF, f32::NAN])),
                (abs, b([INF, 1.0, 0.0, 0.0, INF, f32::NAN])),
                (floor, b([-INF, -1.0, -0.0, 0.0, INF, f32::NAN])),
            ]
        };
        let arguments = [-INF, -1.0, -0.0, 0.0, INF, f32::NAN];
        for (number, (function, want)) in table.into_iter().enumerate() {
            assert_eq!(arguments.map(|x| function(x).to_bits()), want, "function {number}");
        }
        assert_eq!(tanh_approx(-INF).to_bits(), (-1.0f32).to_bits());
    }

    #[test]
    fn subnormal_numbers_stay() {
        let least = f32::from_bits(1);
        assert_eq!(ex2_approx(-149.0), least);
        assert_eq!([-126.0, -126.5, -149.0].map(ex2_approx_ftz), [f32::MIN_POSITIVE, 0.0, 0.0]);
        assert_eq!([least, -least].map(ex2_approx_ftz), [1.0, 1.0]);
        assert_eq!(lg2_approx(least), -149.0);
        // 2^-148 has the root 2^-74.
        assert_eq!(rsqrt_approx(2.0 * least), 2.0f32.powi(74));
        assert_eq!((tanh_approx(least), sqrt_approx(least)), (least, least.sqrt()));
        assert_eq!(rcp_approx(f32::MAX), 1.0 / f32::MAX);
        assert_eq!([f32::MAX, -f32::MAX].map(|x| rcp_approx_ftz(x).to_bits()), [0, 1 << 31]);
        assert_eq!([least, -least].map(rcp_approx_ftz), [f32::INFINITY, f32::NEG_INFINITY]);
    }

    #[test]
    fn minimum_and_maximum_know_zeros_and_nan() {
        let bits = |x: f32| x.to_bits();
        assert_eq!((bits(min(-0.0, 0.0)), bits(max(-0.0, 0.0))), (bits(-0.0), 0));
        assert_eq!((bits(min(0.0, -0.0)), bits(max(0.0, -0.0))), (bits(-0.0), 0));
        assert_eq!((min(f32::NAN, 2.0), max(2.0, f32::NAN)), (2.0, 2.0));
        assert_eq!(bits(min(f32::from_bits(0x7fc0_0001), f32::NAN)), 0x7fff_ffff);
        assert_eq!((min(-1.0, 3.0), max(-1.0, 3.0)), (-1.0, 3.0));
        assert_eq!((bits(max_nan(-0.0, 0.0)), max_nan(-1.0, 3.0)), (0, 3.0));
        assert_eq!(
            (bits(max_nan(-f32::NAN, 2.0)), bits(max_nan(2.0, f32::NAN))),
            (0x7fff_ffff, 0x7fff_ffff)
        );
    }

    #[test]
    fn fma_rounds_once() {
        // 1 - 2^-46 rounded before the sum would give 0.
        let (a, b) = (1.0 + f32::EPSILON, 1.0 - f32::EPSILON);
        assert_eq!(fma(a, b, -1.0), -(f32::EPSILON * f32::EPSILON));
        assert_eq!(fma(f32::INFINITY, 0.0, 1.0).to_bits(), 0x7fff_ffff);
    }
}
