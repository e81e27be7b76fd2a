//! Traps, sleeping, and what a loop's body says to the assembler.
//!
//! PTX manual: *Miscellaneous*.

use crate::device;

/// `trap;`: ends the grid with an error. On the model: a report at the caller's line.
#[device]
pub fn trap() -> ! {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: `trap` does not return, and touches nothing.
    unsafe {
        core::arch::asm!("trap;", options(noreturn, nostack))
    }
    #[cfg(not(target_arch = "nvptx64"))]
    sim::ops::misc::trap()
}

/// `.pragma "nounroll";`: the assembler leaves the loop that this stands in as it is. For loops of few
/// instructions that run seldom: ptxas makes four to sixteen copies of them, and what lies behind is
/// further away from what comes before.
#[inline(always)]
pub fn nounroll() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: a directive, not an instruction.
    unsafe {
        core::arch::asm!(".pragma \"nounroll\";", options(nomem, nostack, preserves_flags))
    }
}

/// `x`, which the compiler is not to know: a bound of a loop of which it would otherwise make copies.
///
/// (`core::hint::black_box` goes through memory.)
#[inline(always)]
#[must_use]
pub fn opaque(x: u32) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: a move between registers.
    unsafe {
        let y: u32;
        core::arch::asm!(
            "mov.b32 {}, {};",
            out(reg32) y,
            in(reg32) x,
            options(pure, nomem, nostack, preserves_flags)
        );
        y
    }
    #[cfg(not(target_arch = "nvptx64"))]
    x
}

ops! { misc;
    /// `nanosleep.u32 ns;`: suspends the thread for about `ns` nanoseconds, at most 1 ms.
    pub fn nanosleep(ns: u32) {
        ptx!("nanosleep.u32 {};", in(reg32) ns)
    }
}
