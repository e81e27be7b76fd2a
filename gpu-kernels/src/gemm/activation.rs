//! Activations: functions of one result of an epilogue. (CUTLASS: the functors of `epilogue::thread`.)
#![forbid(unsafe_code)]

use core::f32::consts::LOG2_E;
use isa::math::{ex2_approx_ftz, fma, rcp_approx_ftz, tanh_approx};

/// A function of one result, without arguments of its own. (CUTLASS: the functors of `epilogue::thread`.)
///
/// ```
/// use warpipe_gpu_kernels::gemm::{Linear, fusion::{Activated, Activation, Chain}};
///
/// /// x², or 0 below 0.
/// #[derive(Clone, Copy)]
/// struct SquaredRelu;
///
/// impl Activation for SquaredRelu {
///     fn apply(x: f32) -> f32 {
///         let x = x.max(0.0);
///         x * x
///     }
/// }
///
/// let epilogue = Linear { alpha: 1.0, beta: 0.0 }.activated::<SquaredRelu>();
/// # let _: Activated<Linear, SquaredRelu> = epilogue;
/// ```
pub trait Activation: Copy + 'static {
    /// The function.
    fn apply(x: f32) -> f32;
}

macro_rules! activations {
    ($($(#[$doc:meta])* $name:ident($x:ident) = $value:expr;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl Activation for $name {
            #[isa::forceinline]
            fn apply($x: f32) -> f32 {
                $value
            }
        }
    )+};
}

activations! {
    /// max(x, 0); NaN becomes 0. (torch `relu`, which keeps NaN; CUTLASS `ReLU`.)
    Relu(x) = isa::math::max(x, 0.0);
    /// x · Φ(x), Φ the normal distribution. The error is at most 2·10⁻⁷ · (1 + |x|). (torch `gelu`; CUTLASS `GELU`.)
    Gelu(x) = gelu(x);
    /// GELU by a hyperbolic tangent, whose relative error is 2⁻¹¹ at most. (torch `gelu` with `approximate="tanh"`; CUTLASS
    /// `GELU_taylor`; cuBLASLt `CUBLASLT_EPILOGUE_GELU`.)
    GeluTanh(x) = fma(0.5 * x, tanh_approx(x * fma(0.035_677_41, x * x, 0.797_884_6)), 0.5 * x);
    /// x / (1 + e⁻ˣ). (torch `silu`; CUTLASS `SiLu`.)
    Silu(x) = x * sigmoid(x);
    /// 1 / (1 + e⁻ˣ). (torch `sigmoid`; CUTLASS `Sigmoid`.)
    Sigmoid(x) = sigmoid(x);
    /// The hyperbolic tangent, with a relative error of at most 2⁻¹¹. (torch `tanh`; CUTLASS `Tanh`.)
    Tanh(x) = tanh_approx(x);
}

#[isa::forceinline]
fn sigmoid(x: f32) -> f32 {
    rcp_approx_ftz(1.0 + ex2_approx_ftz(-LOG2_E * x))
}

/// x · Φ(x): for positive x, x - x · Φ(-x).
///
/// log2 Φ(-a) is nearly a polynomial of a, so Φ(-a) takes one `ex2`, and no difference of near numbers. The polynomial is fitted
/// up to 13 so that the largest error of the result, divided by 1 + |x|, is the least.
#[isa::forceinline]
fn gelu(x: f32) -> f32 {
    const LOG2: [f32; 9] = [
        -0.999_989_2,
        -1.151_255_4,
        -0.458_547_38,
        -0.053_808_674,
        0.008_421_78,
        -9.161_095e-4,
        6.322_857e-5,
        -2.445_503_7e-6,
        3.996_875_4e-8,
    ];
    // Φ(-13.5) is smaller than any normal f32.
    let a = isa::math::min(isa::math::abs(x), 13.5);
    let log2 = LOG2.into_iter().rev().reduce(|sum, next| fma(sum, a, next)).unwrap_or(0.0);
    fma(-a, ex2_approx_ftz(log2), isa::math::max_nan(x, 0.0))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The error function by its series, in f64.
    pub(in super::super) fn erf_exact(x: f64) -> f64 {
        let (mut term, mut sum) = (x, x);
        for n in 1..200 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * core::f64::consts::FRAC_2_SQRT_PI
    }

    fn worst<A: Activation>(exact: impl Fn(f64) -> f64, scale: impl Fn(f64) -> f64) -> f64 {
        let points = (-4000..=4000).map(|i| f64::from(i) / 1000.0);
        points
            .map(|x| (f64::from(A::apply(x as f32)) - exact(f64::from(x as f32))).abs() / scale(x))
            .fold(0.0, f64::max)
    }

    #[test]
    fn activations_are_as_exact_as_they_say() {
        let gelu = |x: f64| 0.5 * x * (1.0 + erf_exact(x / 2f64.sqrt()));
        let logistic = |x: f64| 1.0 / (1.0 + (-x).exp());
        assert!(worst::<Gelu>(gelu, |x| 1.0 + x.abs()) < 2e-7);
        assert!(worst::<GeluTanh>(gelu, |_| 1.0) < 2e-3);
        assert!(worst::<Sigmoid>(logistic, logistic) < 1e-6);
        assert!(worst::<Silu>(|x| x * logistic(x), |x| 1.0 + x.abs()) < 1e-6);
        assert!(worst::<Tanh>(f64::tanh, |x| x.tanh().abs().max(1e-9)) < 1e-6);
        assert!(worst::<Relu>(|x| x.max(0.0), |_| 1.0) == 0.0);
    }

    #[test]
    fn activations_far_out() {
        for x in [60.0, 1e4, f32::MAX, f32::INFINITY] {
            assert_eq!((Gelu::apply(x), Silu::apply(x), Sigmoid::apply(x)), (x, x, 1.0), "{x}");
        }
        for x in [-60.0, -1e4, f32::MIN] {
            assert_eq!((Gelu::apply(x), Sigmoid::apply(x) < 1e-25), (0.0, true), "{x}");
            assert!(Silu::apply(x).abs() < 1e-23, "{x}");
        }
        assert!(Gelu::apply(f32::NAN).is_nan() && Silu::apply(f32::NAN).is_nan());
    }
}
