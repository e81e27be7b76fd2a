//! Conversions between `f32` and packed pairs of 16-bit or 8-bit floats, and to tf32. The low half is the
//! element at the lower address.
//!
//! PTX manual: *Data Movement and Conversion*, `cvt`. Rounding is to nearest even, as in the tensor
//! core's own outputs; to tf32 it is to nearest with ties away from zero. PTX 7.0, sm_80; 8-bit floats:
//! PTX 7.8, sm_90.

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
    /// `cvt.rn.satfinite.e4m3x2.f32 d, hi, lo;`: converts to two e4m3 in 16 bits. Values beyond ±448, and
    /// infinities, become ±448; a NaN stays one.
    pub fn e4m3x2(lo: f32, hi: f32) -> u16 {
        let out: u16;
        ptx_pure!(
            "cvt.rn.satfinite.e4m3x2.f32 {}, {}, {};",
            out(reg16) out, in(reg32) hi, in(reg32) lo
        );
        out
    }
    /// `cvt.rn.satfinite.e5m2x2.f32 d, hi, lo;`: converts to two e5m2 in 16 bits. Values beyond ±57344, and
    /// infinities, become ±57344; a NaN stays one.
    pub fn e5m2x2(lo: f32, hi: f32) -> u16 {
        let out: u16;
        ptx_pure!(
            "cvt.rn.satfinite.e5m2x2.f32 {}, {}, {};",
            out(reg16) out, in(reg32) hi, in(reg32) lo
        );
        out
    }
    /// `cvt.rn.f16x2.e4m3x2 d, v;`: the two e4m3 of `v` as f16, which has every e4m3.
    /// [`f16x2_to_f32`] goes on to f32.
    pub fn e4m3x2_to_f16x2(v: u16) -> u32 {
        let out: u32;
        ptx_pure!("cvt.rn.f16x2.e4m3x2 {}, {};", out(reg32) out, in(reg16) v);
        out
    }
    /// `cvt.rn.f16x2.e5m2x2 d, v;`: the two e5m2 of `v` as f16, which has every e5m2.
    pub fn e5m2x2_to_f16x2(v: u16) -> u32 {
        let out: u32;
        ptx_pure!("cvt.rn.f16x2.e5m2x2 {}, {};", out(reg32) out, in(reg16) v);
        out
    }
    /// `cvt.rna.tf32.f32 d, x;`: rounds to ten bits of fraction, to nearest, ties away from zero. The 13
    /// lowest bits become zero, except those of a NaN.
    pub fn tf32(x: f32) -> f32 {
        let out: f32;
        ptx_pure!("cvt.rna.tf32.f32 {}, {};", out(reg32) out, in(reg32) x);
        out
    }
}
