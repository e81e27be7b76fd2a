//! Conversions between `f32` and packed pairs of 16-bit floats. The low half is the element at the lower
//! address.
//!
//! PTX manual: *Data Movement and Conversion*, `cvt`. Rounding is to nearest even, as in the tensor
//! core's own outputs. PTX 7.0, sm_80.

ops! { cvt;
    /// `cvt.rn.bf16x2.f32 d, hi, lo;`: converts to two bf16 in one register.
    pub fn bf16x2(lo: f32, hi: f32) -> u32 {
        let out: u32;
        ptx_pure!(
            "cvt.rn.bf16x2.f32 {}, {}, {};",
            out(reg32) out, in(reg32) hi, in(reg32) lo
        );
        out
    }
    /// `cvt.rn.f16x2.f32 d, hi, lo;`: converts to two f16 in one register. Values beyond f16's range
    /// become infinite.
    pub fn f16x2(lo: f32, hi: f32) -> u32 {
        let out: u32;
        ptx_pure!(
            "cvt.rn.f16x2.f32 {}, {}, {};",
            out(reg32) out, in(reg32) hi, in(reg32) lo
        );
        out
    }
    /// The two bf16 of `v` as `[lo, hi]`. It takes a shift and a mask, because bf16 is the upper half of
    /// f32.
    pub fn bf16x2_to_f32(v: u32) -> [f32; 2] {
        [f32::from_bits(v << 16), f32::from_bits(v & 0xffff_0000)]
    }
    /// `cvt.f32.f16`, twice: the two f16 of `v` as `[lo, hi]`.
    pub fn f16x2_to_f32(v: u32) -> [f32; 2] {
        let (lo, hi): (f32, f32);
        ptx_pure!(
            "{{ .reg .b16 l, h; mov.b32 {{l, h}}, {2}; cvt.f32.f16 {0}, l; cvt.f32.f16 {1}, h; }}",
            out(reg32) lo, out(reg32) hi, in(reg32) v
        );
        [lo, hi]
    }
}
