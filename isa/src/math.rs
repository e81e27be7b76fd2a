//! Arithmetic that `core` does not provide.
//!
//! PTX manual: *Floating Point Instructions*. Results are rounded to nearest even according to IEEE 754,
//! so that the model and the GPU agree bit by bit.

ops! { math;
    /// `sqrt.rn.f32`: the square root. PTX 1.4.
    pub fn sqrt(x: f32) -> f32 {
        let out: f32;
        ptx_pure!("sqrt.rn.f32 {}, {};", out(reg32) out, in(reg32) x);
        out
    }
}
