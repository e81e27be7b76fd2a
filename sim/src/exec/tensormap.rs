//! Tensor maps in memory: their use by TMA, their fields, their copies, and the fences of their proxy.

use crate::copy::check::{self, MapPointer};
use crate::engine::cluster::Engine;
use crate::finding::fault::Fault;
use crate::finding::rule::Rule;
use crate::memory::global::GlobalMemory;
use crate::race::release::Word;
use crate::types::scope::Scope;
use crate::types::tensor_map::{self, Field, MAP_BYTES, ReplaceError, TensorMapDesc};
use crate::walk::guide::GLOBAL;

/// Whether a map lies in global memory. A kernel parameter never changes.
pub(crate) fn in_memory(map: MapPointer) -> bool {
    GlobalMemory::is_device(map as u64)
}

/// Unpacks the map that a TMA instruction uses, whose changes it must see.
pub(crate) fn of(
    e: &mut Engine,
    t: u32,
    map: MapPointer,
    rank: usize,
) -> Result<Box<TensorMapDesc>, Fault> {
    if in_memory(map) {
        let at = check::map_address(map)?;
        e.guided(|guide| guide.touch(GLOBAL, at, u64::from(MAP_BYTES), false));
        // Before what it says: a map that is changed at the same time may say anything.
        e.checked_global(t, at, |race, thread, base| race.looks_at_map(thread, base, at))?;
        if e.hw.memory.get().map_changed(at) {
            e.checked(t, |race, thread| race.looks_at_old_map(thread, at))?;
        }
    }
    check::tensor_map(e.hw.memory.get(), map, rank)
}

/// A TMA instruction uses a map until the phases of these mbarriers, or the bulk group of this number,
/// from 1, are over.
pub(crate) fn used(
    e: &mut Engine,
    t: u32,
    map: MapPointer,
    bars: &[(usize, u32)],
    group: u64,
) -> Result<(), Fault> {
    if !in_memory(map) {
        return Ok(());
    }
    let at = map as u64;
    e.checked_global(t, at, |race, thread, base| race.uses_map(thread, (base, at), bars, group))
}

fn words(bytes: &[u8]) -> [u64; 16] {
    let word = |i: usize| u64::from_le_bytes(bytes[8 * i..8 * i + 8].try_into().expect("eight"));
    std::array::from_fn(word)
}

/// Replaces a field of the map in these bytes.
fn edit(bytes: &mut [u8], field: Field) -> Result<(), Fault> {
    let mut map = words(bytes);
    tensor_map::replace(&mut map, field).map_err(|error| {
        let rule = match error {
            ReplaceError::Ordinal { .. } | ReplaceError::Rank(_) => Rule::Operand,
            ReplaceError::NotAMap | ReplaceError::NotModelled { .. } => Rule::TensorMap,
        };
        Fault::new(rule, error.to_string())
    })?;
    for (out, word) in bytes.chunks_exact_mut(8).zip(map) {
        out.copy_from_slice(&word.to_le_bytes());
    }
    Ok(())
}

/// A map's address in shared memory.
fn shared(e: &Engine, t: u32, map: u32) -> Result<(usize, u32), Fault> {
    let at = e.hw.own(t, map, MAP_BYTES)?;
    check::map_address(u64::from(map) as MapPointer)?;
    Ok(at)
}

/// `tensormap.replace` in shared memory: a weak access to all of the map.
pub(crate) fn replace_shared(e: &mut Engine, t: u32, map: u32, field: Field) -> Result<(), Fault> {
    let (cta, addr) = shared(e, t, map)?;
    e.guided(|guide| {
        guide.visit(cta);
        guide.touch(cta as u64, u64::from(addr), u64::from(MAP_BYTES), true);
    });
    let smem = &mut e.hw.smem[cta];
    if let Err(c) = smem.read(addr, MAP_BYTES) {
        return Err(e.hw.conflict(cta, c));
    }
    match smem.write(addr, MAP_BYTES) {
        Ok(bytes) => edit(bytes, field)?,
        Err(c) => return Err(e.hw.conflict(cta, c)),
    }
    e.checked(t, |race, thread| race.store(thread, (cta, addr, MAP_BYTES), false))
}

/// `tensormap.replace` in global memory.
pub(crate) fn replace_global(
    e: &mut Engine,
    t: u32,
    map: MapPointer,
    field: Field,
) -> Result<(), Fault> {
    let (at, len) = (check::map_address(map)?, u64::from(MAP_BYTES));
    e.guided(|guide| guide.touch(GLOBAL, at, len, true));
    let allocation = e.hw.memory.get().find(at, len)?;
    let base = allocation.base();
    allocation.with_mut(|view| {
        edit(view.get(at, len)?, field)?;
        e.checked(t, |race, thread| race.global_store(thread, base, (at, len), Word::Store))
    })?;
    e.hw.memory.get().wrote();
    e.hw.memory.get().changes_map(at);
    Ok(())
}

/// `fence.proxy.tensormap::generic.release`
pub(crate) fn release(e: &mut Engine, t: u32, scope: Scope) {
    e.told(t, |race, thread| race.map_release(thread, scope));
}

/// `fence.proxy.tensormap::generic.acquire` of a map, which must lie in global memory.
pub(crate) fn acquire(e: &mut Engine, t: u32, map: MapPointer, scope: Scope) -> Result<(), Fault> {
    let at = check::map_address(map)?;
    e.hw.memory.get().find(at, u64::from(MAP_BYTES))?;
    e.told(t, |race, thread| race.map_acquire(thread, at, scope));
    Ok(())
}

/// `tensormap.cp_fenceproxy`, when the lanes of a warp have met: each gave the two halves of the global
/// address, and the shared one.
pub(crate) fn publish(e: &mut Engine, t: u32, w: usize, scope: Scope) -> Result<(), Fault> {
    let warp = &e.hw.warps[w];
    let lanes = warp.lanes.count_ones();
    let (given, operand) = (&warp.meeting.given, &warp.meeting.operand);
    let lane = |l: usize| (u64::from(given[l][0]) | u64::from(given[l][1]) << 32, operand[l]);
    let (dst, src) = lane(0);
    if let Some(other) = (1..lanes as usize).find(|&l| lane(l) != (dst, src)) {
        let message = format!("lanes 0 and {other} of the warp give different addresses");
        return Err(Fault::new(Rule::Operand, message));
    }
    let (cta, addr) = shared(e, t, src)?;
    let (at, len) = (check::map_address(dst as MapPointer)?, u64::from(MAP_BYTES));
    e.guided(|guide| {
        guide.visit(cta);
        guide.touch(cta as u64, u64::from(addr), len, false);
        guide.touch(GLOBAL, at, len, true);
    });
    let bytes = match e.hw.smem[cta].read(addr, MAP_BYTES) {
        Ok(bytes) => bytes.to_vec(),
        Err(c) => return Err(e.hw.conflict(cta, c)),
    };
    let first = t - e.hw.thread(t).lane();
    let allocation = e.hw.memory.get().find(at, len)?;
    let base = allocation.base();
    allocation.with_mut(|view| {
        view.get(at, len)?.copy_from_slice(&bytes);
        let from = (cta, addr, MAP_BYTES);
        e.checked(t, |race, thread| {
            race.copies_map(thread, first..first + lanes, from, (base, at), scope)
        })
    })?;
    e.hw.memory.get().wrote();
    e.hw.memory.get().changes_map(at);
    Ok(())
}
