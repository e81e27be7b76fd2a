//! Arithmetic that `core` does not provide.
//!
//! PTX manual: *Floating Point Instructions*. A function whose name ends in `_approx` may differ from the exact
//! result by the error that its documentation names, which is the manual's; the model gives the nearest `f32`. The
//! results of the others are exact, or rounded to nearest even according to IEEE 754, so that the model and the GPU
//! agree bit by bit. Only a function whose name ends in `_ftz` flushes subnormal numbers to zero.
//!
//! A GPU computes the approximations several times as fast as the rounded functions. *e*<sup>x</sup> is
//! `ex2_approx(x * LOG2_E)`, and the natural logarithm is `lg2_approx(x) * LN_2`.

ops! { math;
    /// `sqrt.rn.f32`: the square root. PTX 1.4.
    pub fn sqrt(x: f32) -> f32 {
        let out: f32;
        ptx_pure!("sqrt.rn.f32 {}, {};", out(reg32) out, in(reg32) x);
        out
    }

    /// `sqrt.approx.f32`: the square root, with a relative error of at most 2^-23. NaN below -0. PTX 1.4.
    pub fn sqrt_approx(x: f32) -> f32 {
        let out: f32;
        ptx_pure!("sqrt.approx.f32 {}, {};", out(reg32) out, in(reg32) x);
        out
    }

    /// `rsqrt.approx.f32`: one over the square root, with a relative error of at most 2^-22.9. NaN below -0; an
    /// infinity of the zero's sign for a zero. PTX 1.4.
    pub fn rsqrt_approx(x: f32) -> f32 {
        let out: f32;
        ptx_pure!("rsqrt.approx.f32 {}, {};", out(reg32) out, in(reg32) x);
        out
    }

    /// `rcp.approx.f32`: one over `x`, with an error of at most 1 ulp. PTX 1.4.
    pub fn rcp_approx(x: f32) -> f32 {
        let out: f32;
        ptx_pure!("rcp.approx.f32 {}, {};", out(reg32) out, in(reg32) x);
        out
    }

    /// `rcp.approx.ftz.f32`: one over `x`, with an error of at most 1 ulp. Subnormal operands and results are zeros of
    /// their sign, so that the GPU needs one instruction in place of four. PTX 1.4.
    pub fn rcp_approx_ftz(x: f32) -> f32 {
        let out: f32;
        ptx_pure!("rcp.approx.ftz.f32 {}, {};", out(reg32) out, in(reg32) x);
        out
    }

    /// `ex2.approx.f32`: 2 to the power `x`, at most 2 ulp from the correctly rounded result. PTX 1.4.
    pub fn ex2_approx(x: f32) -> f32 {
        let out: f32;
        ptx_pure!("ex2.approx.f32 {}, {};", out(reg32) out, in(reg32) x);
        out
    }

    /// `ex2.approx.ftz.f32`: 2 to the power `x`, at most 2 ulp from the correctly rounded result. Subnormal operands
    /// and results are zeros of their sign, so that the GPU needs one instruction in place of four. PTX 1.4.
    pub fn ex2_approx_ftz(x: f32) -> f32 {
        let out: f32;
        ptx_pure!("ex2.approx.ftz.f32 {}, {};", out(reg32) out, in(reg32) x);
        out
    }

    /// `lg2.approx.f32`: the logarithm to base 2. The absolute error is at most 2^-22 between 0.5 and 2, and the
    /// relative error at most 2^-22 elsewhere. NaN below -0, minus infinity for both zeros. PTX 1.4.
    pub fn lg2_approx(x: f32) -> f32 {
        let out: f32;
        ptx_pure!("lg2.approx.f32 {}, {};", out(reg32) out, in(reg32) x);
        out
    }

    /// `tanh.approx.f32`: the hyperbolic tangent, with a relative error of at most 2^-11. PTX 7.0, sm_75.
    pub fn tanh_approx(x: f32) -> f32 {
        let out: f32;
        ptx_pure!("tanh.approx.f32 {}, {};", out(reg32) out, in(reg32) x);
        out
    }

    /// `min.f32`: the lesser of two numbers. If one is NaN, the other one; -0 is less than +0. PTX 1.0.
    pub fn min(a: f32, b: f32) -> f32 {
        let out: f32;
        ptx_pure!("min.f32 {}, {}, {};", out(reg32) out, in(reg32) a, in(reg32) b);
        out
    }

    /// `max.f32`: the greater of two numbers. If one is NaN, the other one; +0 is greater than -0. PTX 1.0.
    pub fn max(a: f32, b: f32) -> f32 {
        let out: f32;
        ptx_pure!("max.f32 {}, {}, {};", out(reg32) out, in(reg32) a, in(reg32) b);
        out
    }

    /// `max.NaN.f32`: the greater of two numbers. If one is NaN, the canonical NaN; +0 is greater than -0. PTX 7.0, sm_80.
    pub fn max_nan(a: f32, b: f32) -> f32 {
        let out: f32;
        ptx_pure!("max.NaN.f32 {}, {}, {};", out(reg32) out, in(reg32) a, in(reg32) b);
        out
    }

    /// `fma.rn.f32`: `a * b + c`, rounded once. PTX 2.0.
    pub fn fma(a: f32, b: f32, c: f32) -> f32 {
        let out: f32;
        ptx_pure!(
            "fma.rn.f32 {}, {}, {}, {};",
            out(reg32) out, in(reg32) a, in(reg32) b, in(reg32) c
        );
        out
    }

    /// `abs.f32`: the magnitude. For NaN, some NaN: the manual leaves its bits open, and the model gives the
    /// canonical one. PTX 1.0.
    pub fn abs(x: f32) -> f32 {
        let out: f32;
        ptx_pure!("abs.f32 {}, {};", out(reg32) out, in(reg32) x);
        out
    }

    /// `cvt.rmi.f32.f32`: the greatest integer that is not above `x`. PTX 1.0.
    pub fn floor(x: f32) -> f32 {
        let out: f32;
        ptx_pure!("cvt.rmi.f32.f32 {}, {};", out(reg32) out, in(reg32) x);
        out
    }
}
