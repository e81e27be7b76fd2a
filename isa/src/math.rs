//! Arithmetic that `core` does not have.
//!
//! PTX manual: *Floating Point Instructions*. Rounded to nearest even, as IEEE 754 says, so the
//! model and the chip agree bit for bit.

ops! { math;
    /// `sqrt.rn.f32`: the square root. PTX 1.4.
    pub fn sqrt(x: f32) -> f32 {
        let out: f32;
        ptx_pure!("sqrt.rn.f32 {}, {};", out(reg32) out, in(reg32) x);
        out
    }
}
