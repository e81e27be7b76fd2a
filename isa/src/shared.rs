//! Ordinary (generic-proxy) accesses to shared memory of this CTA and of the cluster.
//!
//! PTX manual: *Data Movement*, `ld` and `st` with `.shared` and `.shared::cluster`; *Parallel
//! Synchronization*, `atom`. The accesses are weak; barriers and fences order them between threads.

use crate::Word;
use crate::device;

#[cfg(target_arch = "nvptx64")]
core::arch::global_asm!(".extern .shared .align 1024 .b8 dyn_smem[];");

ops! { shared;
    /// The address of the CTA's dynamic shared memory. It is aligned to 1024 bytes and the same in all
    /// CTAs of a grid.
    pub fn dynamic_base() -> u32 {
        let out: u32;
        ptx_pure!("mov.u32 {}, dyn_smem;", out(reg32) out);
        out
    }
    /// `atom.shared.add.u32` (relaxed): adds `v` and returns the previous value.
    ///
    /// # Safety
    /// `addr` is 4 aligned bytes of this CTA's shared memory with only atomic accesses.
    pub unsafe fn atomic_add_u32(addr: u32, v: u32) -> u32 {
        let out: u32;
        ptx!("atom.shared.add.u32 {}, [{}], {};", out(reg32) out, in(reg32) addr, in(reg32) v);
        out
    }
}

/// `ld.shared`: reads a word of this CTA's shared memory.
///
/// # Safety
/// `addr` is aligned to the word's size, lies in the CTA's shared memory and was written before. No
/// thread writes there at the same time.
#[device]
pub unsafe fn ld<T: Word>(addr: u32) -> T {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller's contract.
    unsafe {
        T::ld_shared(addr)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    sim::ops::shared::ld(addr)
}

/// `st.shared`: writes a word of this CTA's shared memory.
///
/// # Safety
/// `addr` is aligned to the word's size and lies in the CTA's shared memory. No other thread uses those
/// bytes at the same time.
#[device]
pub unsafe fn st<T: Word>(addr: u32, v: T) {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller's contract.
    unsafe {
        T::st_shared(addr, v);
    }
    #[cfg(not(target_arch = "nvptx64"))]
    sim::ops::shared::st(addr, v);
}

/// `ld.shared::cluster`: reads a word of a CTA of the cluster. PTX 7.8, sm_90.
///
/// # Safety
/// As [`ld`], for an address from [`crate::cluster::mapa`]. That CTA has started and does not exit before
/// the access.
#[device]
pub unsafe fn ld_cluster<T: Word>(raddr: u32) -> T {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller's contract.
    unsafe {
        T::ld_cluster(raddr)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    sim::ops::shared::ld_cluster(raddr)
}

/// `st.shared::cluster`: writes a word of a CTA of the cluster. PTX 7.8, sm_90.
///
/// # Safety
/// As [`st`], for an address from [`crate::cluster::mapa`]. That CTA has started and does not exit before
/// the access.
#[device]
pub unsafe fn st_cluster<T: Word>(raddr: u32, v: T) {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller's contract.
    unsafe {
        T::st_cluster(raddr, v);
    }
    #[cfg(not(target_arch = "nvptx64"))]
    sim::ops::shared::st_cluster(raddr, v);
}
