//! [`EltAct`]: the activation of a layer, as an argument of its kernel.
#![forbid(unsafe_code)]

use super::activation::{Activation, Relu};
use super::chain::Link;
use isa::kernel::KernelArg;
use isa::math::{fma, tanh_approx};
use pipeline::cta::{ClusterShape, Role};
use pipeline::mma::Fragment;
use pipeline::prelude::*;

/// An activation that an argument of the kernel chooses, so that one kernel serves them all.
///
/// The smooth ones are x · σ(x · p(x²)), where σ is the logistic function: one piece of code for all, whose coefficients
/// are arguments. A fragment takes one branch for it. [`Chain::activated`](super::chain::Chain::activated) has the activation
/// in the kernel's type, and any other one.
///
/// Each value takes one `tanh.approx`. What that adds to the error of the result for x is at most 2⁻¹² · |x| by the PTX
/// manual. On an H200 it is at most 5·10⁻⁶ · |x|.
///
/// (CUTLASS: `EltAct` in the names of its fusion operations, where it is a type; cuBLASLt: `CUBLASLT_MATMUL_DESC_EPILOGUE`.)
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Debug, KernelArg)]
pub struct EltAct {
    kind: u32,
    // Half the coefficients of p, from that of x⁰ on.
    p0: f32,
    p1: f32,
    p2: f32,
    p3: f32,
    p4: f32,
}

/// What [`EltAct::kind`] means, if it is not the identity.
const RELU: u32 = 1;
const SMOOTH: u32 = 2;

impl EltAct {
    /// x itself.
    pub const IDENTITY: Self = Self::of(0, [0.0; 5]);
    /// [`Relu`].
    pub const RELU: Self = Self::of(RELU, [0.0; 5]);
    /// [`Silu`](super::activation::Silu).
    pub const SILU: Self = Self::of(SMOOTH, [1.0, 0.0, 0.0, 0.0, 0.0]);
    /// x · Φ(x), Φ the normal distribution, with an error of at most 1.2·10⁻⁴ · (|y| + 0.01) in a result y, which is less than
    /// half of what rounding it to f16 adds, and what `tanh.approx` adds.
    /// (torch `gelu`; [`Gelu`](super::activation::Gelu) is more exact.)
    // p is log(Φ(x) / Φ(-x)) / x, fitted for |x| up to 6 so that the largest error of that form is the least. It grows from
    // there on, so x needs no bound.
    pub const GELU: Self = Self::of(
        SMOOTH,
        [1.595_320_5, 0.073_403_65, -4.203_750_2e-4, -3.926_144_2e-5, 1.359_806_6e-6],
    );
    /// GELU by a hyperbolic tangent. (torch `gelu` with `approximate="tanh"`; [`GeluTanh`](super::activation::GeluTanh).)
    // tanh(z) is 2 · σ(2 · z) - 1, and 2 · √(2/π) is 1.5957691.
    pub const GELU_TANH: Self = Self::of(SMOOTH, [1.595_769, 0.071_354_814, 0.0, 0.0, 0.0]);

    const fn of(kind: u32, p: [f32; 5]) -> Self {
        // With a coefficient of 0, p would be NaN where x² is infinite.
        const fn half(p: f32) -> f32 {
            if p == 0.0 { f32::MIN_POSITIVE } else { 0.5 * p }
        }
        let [p0, p1, p2, p3, p4] = p;
        Self { kind, p0: half(p0), p1: half(p1), p2: half(p2), p3: half(p3), p4: half(p4) }
    }

    /// x · σ(x · p(x²)) = h + h · tanh(h · p(x²)), where h = x / 2.
    ///
    /// The logistic function by `ex2` and `rcp` would take a second special function and one instruction more. Beside the
    /// wgmmas of the other warp group, that costs 1.5 % of a product with a K of 2048.
    #[isa::forceinline]
    fn smooth(&self, x: f32) -> f32 {
        let (half, square) = (0.5 * x, x * x);
        let p = fma(fma(fma(self.p4, square, self.p3), square, self.p2), square, self.p1);
        fma(half, tanh_approx(x * fma(p, square, self.p0)), half)
    }
}

#[cfg(not(target_arch = "nvptx64"))]
impl EltAct {
    /// The activations with their names, which are torch's.
    pub const NAMES: [(&'static str, Self); 4] = [
        ("relu", Self::RELU),
        ("silu", Self::SILU),
        ("gelu", Self::GELU),
        ("gelu-tanh", Self::GELU_TANH),
    ];
}

impl Link for EltAct {
    const ACTIVATES: bool = true;

    #[isa::forceinline]
    fn visit(&self, x: Fragment, _c: Option<Fragment>) -> Fragment {
        match self.kind {
            RELU => x.map(Relu::apply),
            SMOOTH => x.map(|x| self.smooth(x)),
            _ => x,
        }
    }

    // One branch for all of them, so that the chains of their values overlap.
    #[isa::forceinline]
    fn visit_all<R: Role, Cl: ClusterShape>(
        &mut self,
        _group: &Warpgroup<R, Cl>,
        xs: &mut [Fragment],
    ) {
        match self.kind {
            RELU => xs.iter_mut().for_each(|x| *x = x.map(Relu::apply)),
            SMOOTH => xs.iter_mut().for_each(|x| *x = x.map(|x| self.smooth(x))),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::activation::tests::erf_exact;
    use super::*;

    #[test]
    fn activations_as_arguments_are_as_exact_as_they_say() {
        let phi = |x: f64| 0.5 * (1.0 + erf_exact(x / 2f64.sqrt()));
        let logistic = |x: f64| 1.0 / (1.0 + (-x).exp());
        let tanh = |x: f64| {
            logistic(2.0 * (2.0 / core::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x))
        };
        let check = |act: EltAct, exact: &dyn Fn(f64) -> f64, bound: f64| {
            for x in (-4500..=4500).map(|i| i as f32 / 1000.0) {
                let want = f64::from(x) * exact(f64::from(x));
                let error = (f64::from(act.smooth(x)) - want).abs();
                assert!(error <= bound * (want.abs() + 0.01), "{act:?} {x}: {error:e}");
            }
        };
        check(EltAct::GELU, &phi, 1.2e-4);
        // For negative x, h + h · tanh is a difference of near numbers, whose last bits are lost.
        check(EltAct::SILU, &logistic, 1e-5);
        check(EltAct::GELU_TANH, &tanh, 2e-5);
        for act in [EltAct::GELU, EltAct::SILU, EltAct::GELU_TANH] {
            for x in [60.0, 1e4, 1e10, 1e20, f32::MAX, f32::INFINITY] {
                assert_eq!(act.smooth(x).to_bits(), x.to_bits(), "{act:?} {x}");
            }
            assert!(
                [-60.0, -1e4, -1e10, -1e20, f32::MIN].iter().all(|&x| act.smooth(x).abs() < 1e-23)
            );
            assert!(act.smooth(f32::NAN).is_nan());
        }
    }
}
