//! Moves registers between warp groups.
//!
//! The sum over the CTA's warp groups must fit the 64 Ki registers of the SM. The kernel needs a register
//! limit at entry, which `threads` and `min_ctas` of `#[kernel]` set. PTX manual: *Miscellaneous*,
//! `setmaxnreg`. PTX 8.0, sm_90a. (CUTLASS `warpgroup_reg_alloc`, `warpgroup_reg_dealloc`.)
//!
//! ```no_run
//! unsafe { warpipe_isa::setmaxnreg::dec::<40>() }
//! ```
//! A number that the instruction does not accept is a compile error:
//! ```compile_fail,E0080
//! unsafe { warpipe_isa::setmaxnreg::dec::<20>() }
//! ```
//! ```compile_fail,E0080
//! unsafe { warpipe_isa::setmaxnreg::inc::<236>() }
//! ```

use crate::device;

/// Checks that `n` is a multiple of 8 from 24 to 256, as `setmaxnreg` requires.
const fn check(n: u32) {
    assert!(
        n.is_multiple_of(8) && n >= 24 && n <= 256,
        "setmaxnreg takes a multiple of 8 from 24 to 256"
    );
}

/// `setmaxnreg.inc.sync.aligned.u32 N;`: raises the limit of registers per thread to `N`. Waits until the
/// CTA's register pool has them.
///
/// # Safety
/// All warps of the warp group execute it, convergent, with an `N` not below their current limit. They
/// have synchronised since the `setmaxnreg` before it.
/// Another warp group releases as many registers.
#[device]
pub unsafe fn inc<const N: u32>() {
    const { check(N) };
    #[cfg(target_arch = "nvptx64")]
    ptx!("setmaxnreg.inc.sync.aligned.u32 {};", const N);
    #[cfg(not(target_arch = "nvptx64"))]
    sim::ops::setmaxnreg::inc::<N>();
}

/// `setmaxnreg.dec.sync.aligned.u32 N;`: lowers the limit of registers per thread to `N`.
///
/// # Safety
/// All warps of the warp group execute it, convergent, with an `N` not above their current limit. They
/// have synchronised since the `setmaxnreg` before it.
/// The code that they run afterwards fits in `N` registers (ptxas ensures this or reports an error).
#[device]
pub unsafe fn dec<const N: u32>() {
    const { check(N) };
    #[cfg(target_arch = "nvptx64")]
    ptx!("setmaxnreg.dec.sync.aligned.u32 {};", const N);
    #[cfg(not(target_arch = "nvptx64"))]
    sim::ops::setmaxnreg::dec::<N>();
}

/// One arm for each value, of which constant folding leaves one. The instruction takes an immediate, and a
/// role's budget is an associated constant, which cannot be a const argument.
macro_rules! by_value {
    ($op:ident, $n:expr, [$($value:literal)*]) => {
        match $n {
            // SAFETY: the caller's contract.
            $($value => unsafe { $op::<$value>() },)*
            // Unreachable: the budgets of roles are checked at compile time.
            _ => crate::misc::trap(),
        }
    };
    ($op:ident, $n:expr) => {
        by_value!($op, $n, [
            24 32 40 48 56 64 72 80 88 96 104 112 120 128 136 144 152 160 168 176 184 192 200 208
            216 224 232 240 248 256
        ])
    };
}

/// [`inc`] with a number that is not a const argument. It must be constant after inlining.
///
/// # Safety
/// As [`inc`]; `n` is a multiple of 8 from 24 to 256.
#[device]
pub unsafe fn inc_to(n: u32) {
    by_value!(inc, n);
}

/// [`dec`] with a number that is not a const argument. It must be constant after inlining.
///
/// # Safety
/// As [`dec`]; `n` is a multiple of 8 from 24 to 256.
#[device]
pub unsafe fn dec_to(n: u32) {
    by_value!(dec, n);
}
