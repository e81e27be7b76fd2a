//! Rounding to tf32.

/// Rounds a number to ten bits of fraction: to nearest, ties away from zero. An infinity or a NaN stays.
///
/// `cvt.rna.tf32` does so. No manual says how a TMA load of tf32 rounds. An H200 rounds to the nearest, too, and breaks ties
/// otherwise.
pub(crate) fn round(x: f32) -> f32 {
    if !x.is_finite() {
        return x;
    }
    // The sign is a bit of its own, so a carry goes away from zero; from the largest numbers it makes an
    // infinity.
    f32::from_bits((x.to_bits() + 0x1000) & !0x1fff)
}
