//! Ordinary accesses to shared memory.

use super::Word;
use crate::drive::current::look;
use crate::exec::access;
use crate::exec::given::given;
use crate::types::grid::SMEM_BASE;

/// Where dynamic shared memory starts
pub fn dynamic_base() -> u32 {
    SMEM_BASE
}

/// `ld.shared`
#[track_caller]
pub fn ld<T: Word>(addr: u32) -> T {
    look("ld.shared", addr, Some(u64::from(addr)), |e, t| access::smem_load(e, t, addr, false))
}

/// `st.shared`
#[track_caller]
pub fn st<T: Word>(addr: u32, v: T) {
    look("st.shared", addr, None, |e, t| access::smem_store(e, t, addr, v, false));
}

/// `ld.shared::cluster`
#[track_caller]
pub fn ld_cluster<T: Word>(raddr: u32) -> T {
    look("ld.shared::cluster", raddr, Some(u64::from(raddr)), |e, t| {
        access::smem_load(e, t, raddr, true)
    })
}

/// `st.shared::cluster`
#[track_caller]
pub fn st_cluster<T: Word>(raddr: u32, v: T) {
    look("st.shared::cluster", raddr, None, |e, t| access::smem_store(e, t, raddr, v, true));
}

/// `atom.shared.add.u32`
#[track_caller]
pub fn atomic_add_u32(addr: u32, v: u32) -> u32 {
    look("atom.shared.add", addr, Some(u64::from(addr)), |e, t| {
        given(e, t, v)?;
        access::smem_update(e, t, addr, |old| old.wrapping_add(v))
    })
}
