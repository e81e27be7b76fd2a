//! Traps and sleeping.
//!
//! PTX manual: *Miscellaneous*.

/// `trap;`: ends the grid with an error. On the model: a report at the caller's line.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn trap() -> ! {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: `trap` does not return, and touches nothing.
    unsafe {
        core::arch::asm!("trap;", options(noreturn, nostack))
    }
    #[cfg(not(target_arch = "nvptx64"))]
    sim::ops::misc::trap()
}

ops! { misc;
    /// `nanosleep.u32 ns;`: suspends the thread for about `ns` nanoseconds, at most 1 ms.
    pub fn nanosleep(ns: u32) {
        ptx!("nanosleep.u32 {};", in(reg32) ns)
    }
}
