//! Pauses of random length, for tests that look for waits that are missing.
//!
//! A missing wait often goes unnoticed on a GPU, because the other side happens to be in time. In a device build with
//! the feature `stress`, threads sleep before and after each wait, and before each arrival, copy and batch of wgmmas.
//! Results must stay the same, bit for bit.

/// Sleeps for up to 4 us in one of four calls, by chance: the clock decides.
///
/// All lanes of a warp read the same clock, so they sleep as long as each other.
#[inline(always)]
pub fn pause() {
    let mixed = (crate::sreg::clock64() as u32 ^ crate::sreg::smid()).wrapping_mul(0x9e37_79b9);
    // The upper bits are the mixed ones. No branch: the warp stays convergent.
    let chosen = u32::from(mixed >> 30 == 0);
    crate::misc::nanosleep(chosen * (mixed >> 18 & 0xfff));
}
