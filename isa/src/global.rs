//! Accesses to global memory by raw pointer.
//!
//! PTX manual: *Data Movement*, `ld` and `st` with `.global`; *Parallel Synchronization*, `atom` and
//! `red`. On the model, a pointer is an artificial device address that the model looks up among its
//! allocations.

use crate::Word;
use crate::device;
#[cfg(target_arch = "nvptx64")]
use crate::watchdog::Watchdog;

/// `ld.global` (weak): reads a word.
///
/// # Safety
/// `p` points to a word of device memory, aligned to its size. No thread writes there at the same time.
#[device]
pub unsafe fn ld<T: Word>(p: *const T) -> T {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller's contract.
    unsafe {
        T::ld_global(p)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    sim::ops::global::ld(p)
}

/// `@p ld.global` (weak): reads a word if `when`; if not, the result is `or`.
///
/// There is no branch, so the loads of a loop can be in flight together.
///
/// # Safety
/// As [`ld`], if `when`.
#[device]
pub unsafe fn ld_if<T: Word>(p: *const T, when: bool, or: T) -> T {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller's contract.
    unsafe {
        T::ld_global_if(p, when.into(), or)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    if when { sim::ops::global::ld(p) } else { or }
}

/// `st.global` (weak): writes a word.
///
/// # Safety
/// `p` points to a word of device memory, aligned to its size. No other thread uses it at the same time.
#[device]
pub unsafe fn st<T: Word>(p: *mut T, v: T) {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller's contract.
    unsafe {
        T::st_global(p, v);
    }
    #[cfg(not(target_arch = "nvptx64"))]
    sim::ops::global::st(p, v);
}

ops! { global;
    /// `atom.global.add.u32` (relaxed, GPU scope): adds `v` and returns the previous value.
    ///
    /// # Safety
    /// `p` points to an aligned word of device memory with only atomic accesses.
    pub unsafe fn atomic_add_u32(p: *mut u32, v: u32) -> u32 {
        let out: u32;
        ptx!("atom.global.add.u32 {}, [{}], {};", out(reg32) out, in(reg64) p, in(reg32) v);
        out
    }
    /// `atom.global.add.f32` (relaxed, GPU scope): adds `v` and returns the previous value. The order of
    /// such additions, and so their rounding, differs between runs.
    ///
    /// # Safety
    /// As [`atomic_add_u32`].
    pub unsafe fn atomic_add_f32(p: *mut f32, v: f32) -> f32 {
        let out: f32;
        ptx!("atom.global.add.f32 {}, [{}], {};", out(reg32) out, in(reg64) p, in(reg32) v);
        out
    }
    /// `atom.global.cas.b32` (relaxed, GPU scope): writes `v` if the word is `expected`; returns the previous
    /// value. A lock needs `fence.acq_rel` after it, and before the [`atomic_exch_u32`] that gives it back.
    ///
    /// # Safety
    /// As [`atomic_add_u32`].
    pub unsafe fn atomic_cas_u32(p: *mut u32, expected: u32, v: u32) -> u32 {
        let out: u32;
        ptx!("atom.global.cas.b32 {}, [{}], {}, {};", out(reg32) out, in(reg64) p, in(reg32) expected, in(reg32) v);
        out
    }
    /// `atom.global.exch.b32` (relaxed, GPU scope): writes `v` and returns the previous value.
    ///
    /// # Safety
    /// As [`atomic_add_u32`].
    pub unsafe fn atomic_exch_u32(p: *mut u32, v: u32) -> u32 {
        let out: u32;
        ptx!("atom.global.exch.b32 {}, [{}], {};", out(reg32) out, in(reg64) p, in(reg32) v);
        out
    }
    /// `atom.acq_rel.gpu.global.inc.u32`: adds 1, or writes 0 if the word is `most` or more, and returns the previous
    /// value. It comes after all earlier writes of this thread, and later reads see what others wrote before their counts or
    /// other releases that it follows. It waits for nobody. PTX 6.0, sm_70. (CUDA `atomicInc` between two `__threadfence`.)
    ///
    /// # Safety
    /// As [`atomic_add_u32`].
    pub unsafe fn atomic_inc_acq_rel_gpu_u32(p: *mut u32, most: u32) -> u32 {
        let out: u32;
        ptx!("atom.acq_rel.gpu.global.inc.u32 {}, [{}], {};", out(reg32) out, in(reg64) p, in(reg32) most);
        out
    }
    /// `red.global.max.u32` (relaxed, GPU scope): writes `v` if it is larger than the word. Bits of floats that are
    /// not negative are ordered as their values are, and those of a NaN come behind all others.
    ///
    /// # Safety
    /// As [`atomic_add_u32`].
    pub unsafe fn red_max_u32(p: *mut u32, v: u32) {
        ptx!("red.global.max.u32 [{}], {};", in(reg64) p, in(reg32) v)
    }
    /// `ld.acquire.gpu.global.u32`: reads a flag. It pairs with [`st_release_gpu_u32`] and
    /// [`red_release_gpu_add_u32`] of another CTA. PTX 6.0, sm_70.
    ///
    /// # Safety
    /// As [`atomic_add_u32`].
    pub unsafe fn ld_acquire_gpu_u32(p: *const u32) -> u32 {
        let out: u32;
        ptx!("ld.acquire.gpu.global.u32 {}, [{}];", out(reg32) out, in(reg64) p);
        out
    }
    /// `st.release.gpu.global.u32`: writes a flag after all earlier writes of this thread. PTX 6.0, sm_70.
    ///
    /// # Safety
    /// As [`atomic_add_u32`].
    pub unsafe fn st_release_gpu_u32(p: *mut u32, v: u32) {
        ptx!("st.release.gpu.global.u32 [{}], {};", in(reg64) p, in(reg32) v)
    }
    /// `red.release.gpu.global.add.u32`: adds to a counter after all earlier writes of this thread. PTX
    /// 6.0, sm_70.
    ///
    /// # Safety
    /// As [`atomic_add_u32`].
    pub unsafe fn red_release_gpu_add_u32(p: *mut u32, v: u32) {
        ptx!("red.release.gpu.global.add.u32 [{}], {};", in(reg64) p, in(reg32) v)
    }
    /// A loop of [`ld_acquire_gpu_u32`] that waits until the flag is `v`. With the feature
    /// `bounded-waits`, a wait longer than two seconds traps.
    ///
    /// # Safety
    /// As [`atomic_add_u32`].
    pub unsafe fn wait_acquire_gpu_u32(p: *const u32, v: u32) {
        let watchdog = Watchdog::new();
        // SAFETY: the caller's contract.
        while unsafe { ld_acquire_gpu_u32(p) } != v {
            watchdog.check();
        }
    }
}
