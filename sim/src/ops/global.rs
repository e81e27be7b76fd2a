//! Global memory. Pointers are device addresses of [`crate::GlobalMemory`]; none is followed.

use super::Word as Value;
use crate::drive::current::{block, look};
use crate::exec::access;
use crate::exec::given::given;
use crate::race::release::Word;
use crate::types::scope::Scope;
use crate::types::wait::{Wait, Wake};
use std::task::Poll;

/// `ld.global`
#[track_caller]
pub fn ld<T: Value>(p: *const T) -> T {
    look("ld.global", 0, Some(p as u64), |e, t| access::gmem_load(e, t, p as u64, None))
}

/// `st.global`
#[track_caller]
pub fn st<T: Value>(p: *mut T, v: T) {
    look("st.global", 0, None, |e, t| access::gmem_store(e, t, p as u64, v, Word::Store));
}

/// `atom.global.add.u32`
#[track_caller]
pub fn atomic_add_u32(p: *mut u32, v: u32) -> u32 {
    look("atom.global.add", 0, Some(p as u64), |e, t| {
        given(e, t, v)?;
        access::gmem_update(e, t, p as u64, |old: u32| old.wrapping_add(v), Word::Update)
    })
}

/// `atom.global.add.f32`
#[track_caller]
pub fn atomic_add_f32(p: *mut f32, v: f32) -> f32 {
    look("atom.global.add", 0, Some(p as u64), |e, t| {
        given(e, t, v)?;
        access::gmem_update(e, t, p as u64, |old: f32| old + v, Word::Update)
    })
}

/// `atom.global.cas.b32`
#[track_caller]
pub fn atomic_cas_u32(p: *mut u32, expected: u32, v: u32) -> u32 {
    look("atom.global.cas", 0, Some(p as u64), |e, t| {
        let swap = |old: u32| if old == expected { v } else { old };
        access::gmem_update(e, t, p as u64, swap, Word::Update)
    })
}

/// `atom.global.exch.b32`
#[track_caller]
pub fn atomic_exch_u32(p: *mut u32, v: u32) -> u32 {
    look("atom.global.exch", 0, Some(p as u64), |e, t| {
        access::gmem_update(e, t, p as u64, |_: u32| v, Word::Update)
    })
}

/// `atom.acq_rel.gpu.global.inc.u32`
#[track_caller]
pub fn atomic_inc_acq_rel_gpu_u32(p: *mut u32, most: u32) -> u32 {
    look("atom.acq_rel.gpu.inc", 0, Some(p as u64), |e, t| {
        given(e, t, most)?;
        let inc = |old: u32| if old < most { old + 1 } else { 0 };
        access::gmem_update(e, t, p as u64, inc, Word::UpdateAcqRel(Scope::Gpu))
    })
}

/// `ld.acquire.gpu.global.u32`: others run first, for this is what polling loops are made of.
#[track_caller]
pub fn ld_acquire_gpu_u32(p: *const u32) -> u32 {
    block("ld.acquire.gpu", 0, |e, t| {
        if e.woken(t) == Wake::No && !e.pauses_polls() {
            e.sleep(t, Wait::Poll { global: true });
            return Ok(Poll::Pending);
        }
        let acquire = Word::LoadAcquire(Scope::Gpu);
        access::gmem_load(e, t, p as u64, Some(acquire)).map(Poll::Ready)
    })
}

/// Loop of `ld.acquire.gpu.global.u32`
#[track_caller]
pub fn wait_acquire_gpu_u32(p: *const u32, v: u32) {
    while ld_acquire_gpu_u32(p) != v {}
}

/// `st.release.gpu.global.u32`
#[track_caller]
pub fn st_release_gpu_u32(p: *mut u32, v: u32) {
    look("st.release.gpu", 0, None, |e, t| {
        access::gmem_store(e, t, p as u64, v, Word::StoreRelease(Scope::Gpu))
    });
}

/// `red.release.gpu.global.add.u32`
#[track_caller]
pub fn red_release_gpu_add_u32(p: *mut u32, v: u32) {
    look("red.release.gpu.add", 0, Some(p as u64), |e, t| {
        given(e, t, v)?;
        let release = Word::UpdateRelease(Scope::Gpu);
        access::gmem_update(e, t, p as u64, |old: u32| old.wrapping_add(v), release).map(|_| ())
    });
}

/// `red.global.max.u32`
#[track_caller]
pub fn red_max_u32(p: *mut u32, v: u32) {
    look("red.global.max", 0, Some(p as u64), |e, t| {
        given(e, t, v)?;
        access::gmem_update(e, t, p as u64, |old: u32| old.max(v), Word::Update).map(|_| ())
    });
}
