//! How long a loop of polls goes on.

/// How long a blocking wait may last: for ever, or two seconds with `bounded-waits`.
pub struct Patience {
    #[cfg(feature = "bounded-waits")]
    start_ns: u64,
}

impl Patience {
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
