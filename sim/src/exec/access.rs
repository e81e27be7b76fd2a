//! Ordinary loads and stores, and atomic updates.

use super::given::given;
use crate::engine::cluster::Engine;
use crate::finding::fault::Fault;
use crate::finding::rule::Rule;
use crate::race::release::{Place, Word as Order};
use crate::types::word::Word;
use crate::walk::guide::GLOBAL;

/// `len` is a power of two.
#[inline]
fn aligned(addr: u64, len: usize) -> Result<(), Fault> {
    if addr & (len as u64 - 1) == 0 {
        return Ok(());
    }
    Err(Fault::new(Rule::Misaligned, format!("{len} bytes at {addr:#x}: a multiple of {len}")))
}

/// Where a word of shared memory lies: `remote` allows other CTAs.
#[inline]
fn word(e: &Engine, t: u32, addr: u32, len: usize, remote: bool) -> Result<(usize, u32), Fault> {
    let bytes = len as u32;
    let at = if remote { e.hw.split(t, addr, bytes)? } else { e.hw.own(t, addr, bytes)? };
    aligned(u64::from(addr), len)?;
    Ok(at)
}

/// Writes a word; whether that changes its bytes.
fn put<T: Word>(v: T, bytes: &mut [u8]) -> bool {
    let mut old = [0; 16];
    let old = &mut old[..T::BYTES];
    old.copy_from_slice(bytes);
    v.to_bytes(bytes);
    *old != *bytes
}

#[inline]
fn note_load(e: &mut Engine, t: u32, space: u64, addr: u64, len: u64) {
    if let Some(guide) = &mut e.guide
        && let Some(loc) = e.hw.thread(t).loc
    {
        if space != GLOBAL {
            guide.visit(space as usize);
        }
        guide.load(t, loc, space, addr, len);
    }
}

fn note_store(e: &mut Engine, cta: usize, addr: u32, len: usize) {
    e.guided(|guide| {
        guide.visit(cta);
        guide.touch(cta as u64, u64::from(addr), len as u64, true);
    });
}

/// A load from shared memory.
pub(crate) fn smem_load<T: Word>(
    e: &mut Engine,
    t: u32,
    addr: u32,
    remote: bool,
) -> Result<T, Fault> {
    let (cta, addr) = word(e, t, addr, T::BYTES, remote)?;
    note_load(e, t, cta as u64, u64::from(addr), T::BYTES as u64);
    let v = match e.hw.smem[cta].read(addr, T::BYTES as u32) {
        Ok(bytes) => T::from_bytes(bytes),
        Err(c) => return Err(e.hw.conflict(cta, c)),
    };
    e.checked(t, |race, thread| race.load(thread, (cta, addr, T::BYTES as u32)))?;
    Ok(v)
}

/// A store to shared memory.
pub(crate) fn smem_store<T: Word>(
    e: &mut Engine,
    t: u32,
    addr: u32,
    v: T,
    remote: bool,
) -> Result<(), Fault> {
    given(e, t, v)?;
    let (cta, addr) = word(e, t, addr, T::BYTES, remote)?;
    note_store(e, cta, addr, T::BYTES);
    let changed = match e.hw.smem[cta].write(addr, T::BYTES as u32) {
        Ok(bytes) => put(v, bytes),
        Err(c) => return Err(e.hw.conflict(cta, c)),
    };
    if changed {
        e.progress();
    }
    e.checked(t, |race, thread| race.store(thread, (cta, addr, T::BYTES as u32), false))
}

/// An atomic update in the own CTA's shared memory; gives the old value.
pub(crate) fn smem_update(
    e: &mut Engine,
    t: u32,
    addr: u32,
    f: impl FnOnce(u32) -> u32,
) -> Result<u32, Fault> {
    let (cta, addr) = word(e, t, addr, 4, false)?;
    let old = match e.hw.smem[cta].read(addr, 4) {
        Ok(bytes) => u32::from_bytes(bytes),
        Err(c) => return Err(e.hw.conflict(cta, c)),
    };
    let changed = match e.hw.smem[cta].write(addr, 4) {
        Ok(bytes) => put(f(old), bytes),
        Err(c) => return Err(e.hw.conflict(cta, c)),
    };
    if changed {
        note_store(e, cta, addr, 4);
        e.progress();
    } else {
        note_load(e, t, cta as u64, u64::from(addr), 4);
    }
    e.checked(t, |race, thread| {
        race.store(thread, (cta, addr, 4), true)?;
        race.word(thread, Place::Shared { cluster: race.cluster, cta, addr }, Order::Update);
        Ok(())
    })?;
    Ok(old)
}

/// A load from global memory; `acquire` says that it is an acquiring load.
pub(crate) fn gmem_load<T: Word>(
    e: &mut Engine,
    t: u32,
    addr: u64,
    acquire: Option<Order>,
) -> Result<T, Fault> {
    aligned(addr, T::BYTES)?;
    let len = T::BYTES as u64;
    note_load(e, t, GLOBAL, addr, len);
    e.sched.looks.global = true;
    // Value and order are one: other clusters run on other OS threads.
    let allocation = e.hw.memory.get().find(addr, len)?;
    let (base, known) = (allocation.base(), e.hw.check_uninitialised);
    allocation.with(|view| {
        if known {
            view.known(addr, len)?;
        }
        let v = T::from_bytes(view.get(addr, len)?);
        e.checked(t, |race, thread| race.global_load(thread, base, (addr, len), acquire))?;
        Ok(v)
    })
}

/// A store to global memory.
pub(crate) fn gmem_store<T: Word>(
    e: &mut Engine,
    t: u32,
    addr: u64,
    value: T,
    order: Order,
) -> Result<(), Fault> {
    given(e, t, value)?;
    gmem_update(e, t, addr, |_: T| value, order).map(|_| ())
}

/// Reads, changes and writes a word of global memory in one step; gives the old value.
pub(crate) fn gmem_update<T: Word>(
    e: &mut Engine,
    t: u32,
    addr: u64,
    f: impl FnOnce(T) -> T,
    order: Order,
) -> Result<T, Fault> {
    aligned(addr, T::BYTES)?;
    let len = T::BYTES as u64;
    let allocation = e.hw.memory.get().find(addr, len)?;
    let base = allocation.base();
    let reads = matches!(order, Order::Update | Order::UpdateRelease(_) | Order::UpdateAcqRel(_));
    let known = reads && e.hw.check_uninitialised;
    let (old, changed) = allocation.with_mut(|view| {
        if known {
            view.known(addr, len)?;
        }
        let bytes = view.get(addr, len)?;
        let old = T::from_bytes(bytes);
        let changed = put(f(old), bytes);
        e.checked(t, |race, thread| race.global_store(thread, base, (addr, len), order))?;
        Ok::<_, Fault>((old, changed))
    })?;
    if !changed && order == Order::Update {
        // It has only looked.
        note_load(e, t, GLOBAL, addr, len);
    } else {
        e.guided(|guide| guide.touch(GLOBAL, addr, len, true));
    }
    e.sched.looks.global = true;
    if changed {
        e.hw.memory.get().wrote();
        e.progress();
    }
    Ok(old)
}
