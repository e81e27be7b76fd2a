//! The watchdog of polling loops.

/// Traps if a blocking wait takes longer than two seconds. Without the feature `bounded-waits` it does
/// nothing.
pub struct Watchdog {
    #[cfg(feature = "bounded-waits")]
    start_ns: u64,
}

impl Watchdog {
    #[inline(always)]
    pub fn new() -> Self {
        Self {
            #[cfg(feature = "bounded-waits")]
            start_ns: crate::sreg::globaltimer(),
        }
    }
    #[inline(always)]
    pub fn check(&self) {
        #[cfg(feature = "bounded-waits")]
        if crate::sreg::globaltimer() - self.start_ns > 2_000_000_000 {
            crate::misc::trap()
        }
    }
}
