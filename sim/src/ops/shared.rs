//! Ordinary accesses to shared memory.

use super::Word;
use crate::cluster::ctas::ranked;
use crate::drive::current::{look, peek};
use crate::exec::access;
use crate::exec::given::given;
use crate::types::grid::SMEM_BASE;

/// Where dynamic shared memory starts. In a cluster the address has the CTA's rank, as on the chip, in the form of `mapa`.
pub fn dynamic_base() -> u32 {
    peek(|e, t| match e.hw.ctas.len() {
        1 => SMEM_BASE,
        _ => ranked(SMEM_BASE, e.hw.thread(t).cta as u32),
    })
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
