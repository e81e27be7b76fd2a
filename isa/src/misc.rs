//! Traps, sleeping, and hints about loops to the assembler.
//!
//! PTX manual: *Miscellaneous*.

use crate::device;

/// `trap;`: ends the grid with an error. On the model, it is a report with the caller's line.
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

/// `.pragma "nounroll";`: ptxas does not unroll the loop that contains this call. Use it in short loops
/// that rarely run: ptxas would make four to sixteen copies of them, which moves the code after the loop
/// further away from the code before it.
#[inline(always)]
pub fn nounroll() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: a directive, not an instruction.
    unsafe {
        core::arch::asm!(".pragma \"nounroll\";", options(nomem, nostack, preserves_flags))
    }
}

/// Returns `x` and hides its value from the compiler, for example a loop bound, so that the loop is not
/// unrolled.
///
/// (`core::hint::black_box` would go through memory.)
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
