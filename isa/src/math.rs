//! Arithmetic that `core` does not provide.
//!
//! PTX manual: *Floating Point Instructions*. Results are rounded to nearest even according to IEEE 754, so that
//! the model and the GPU agree bit by bit. A function whose name says `approx` is an exception.

ops! { math;
    /// `sqrt.rn.f32`: the square root. PTX 1.4.
    pub fn sqrt(x: f32) -> f32 {
        let out: f32;
        ptx_pure!("sqrt.rn.f32 {}, {};", out(reg32) out, in(reg32) x);
        out
    }

    /// `tanh.approx.f32`: the hyperbolic tangent, with a relative error of at most 2^-11. The model gives the
    /// nearest `f32`. PTX 7.0, sm_75.
    pub fn tanh_approx(x: f32) -> f32 {
        let out: f32;
        ptx_pure!("tanh.approx.f32 {}, {};", out(reg32) out, in(reg32) x);
        out
    }
}
