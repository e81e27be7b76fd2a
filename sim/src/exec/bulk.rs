//! Bulk copies: TMA tensors and plain runs, as they are issued.

use super::tensormap;
use crate::barrier::mbarrier::MBarrier;
use crate::barrier::uses::phase_name;
use crate::cluster::ctas::ranked;
use crate::copy::boxes::{self, Combine};
use crate::copy::check::{self, MapPointer};
use crate::copy::flight::{Copy, Kind, Sink, Target};
use crate::engine::cluster::Engine;
use crate::finding::fault::Fault;
use crate::finding::rule::Rule;
use crate::trace::timing::Transfer;
use crate::types::landing::Landing;
use crate::types::tensor_map::DataType;

/// A plain bulk copy's addresses: in shared memory, and in global memory.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    pub smem: u32,
    pub global: u64,
    pub bytes: u32,
}

/// Where a TMA load goes, and where its mbarrier is.
#[derive(Clone, Copy)]
pub(crate) enum To {
    /// To one CTA, which has the mbarrier.
    One,
    /// To each CTA of a mask, each of which has an mbarrier.
    Mask(u16),
    /// To one CTA; the mbarrier is its own, or that of the other CTA of its pair.
    Pair,
}

/// A copy is in flight from now on.
pub(crate) fn start(e: &mut Engine, t: u32, kind: Kind) {
    let loc = e.hw.line(t);
    let queued = matches!(kind, Kind::CpAsync);
    let agent = e.guide.as_mut().map_or(0, |g| g.copy(t, queued));
    let priority = e.sched.issue();
    let mut landing = Landing::default();
    e.timed(|time| landing = time.starts(t, loc, transfer(&kind)));
    e.hw.copies.start(Copy { issuer: t, agent, priority, loc, kind, landing });
}

/// What the time of a copy depends on.
fn transfer(kind: &Kind) -> Transfer {
    match *kind {
        Kind::TensorLoad { to, .. }
        | Kind::RunLoad { to, .. }
        | Kind::Answer { to, .. }
        | Kind::Peer { to, .. } => {
            Transfer::Load { cta: to.cta, addr: to.dst, bytes: to.bytes, bar: to.bar }
        }
        Kind::StoreRead { group, bytes, .. } => Transfer::Store { group, bytes },
        Kind::StoreWrite { .. } | Kind::CpAsync | Kind::Commit { .. } => Transfer::Queued,
    }
}

/// Marks the destination of a load as being written, for an mbarrier.
pub(crate) fn target(
    e: &mut Engine,
    t: u32,
    (cta, dst, bytes): (usize, u32, u32),
    (bar_cta, bar): (usize, u32),
) -> Result<Target, Fault> {
    e.operands(|| [cta as u64, u64::from(dst), u64::from(bytes), u64::from(bar)]);
    let bar = e.hw.bar_at((bar_cta, bar))?;
    counts(e, t, bar, bytes)?;
    e.hw.smem[cta].begin_write(dst, bytes).map_err(|c| e.hw.conflict(cta, c))?;
    e.guided(|guide| {
        guide.visit(cta);
        guide.touch(cta as u64, u64::from(dst), u64::from(bytes), true);
    });
    let site = e.checked(t, |race, thread| {
        let site = race.target(thread, (cta, dst, bytes))?;
        race.uses(t, bar, true)?;
        race.will_complete(t, bar);
        Ok(site)
    })?;
    Ok(Target { cta, dst, bytes, bar, site })
}

/// Checks in which phase the bytes of a copy count that is issued: in none before the one in progress, and in this one only
/// if it expects them.
fn counts(e: &Engine, t: u32, bar: usize, bytes: u32) -> Result<(), Fault> {
    let MBarrier { phase, pending, tx, .. } = e.hw.mbarriers.get(bar).state;
    let wrong = |message| Err(Fault::new(Rule::TxOverrun, message).bar(bar));
    let name = || e.hw.mbarriers.name(bar);
    let coming = e.hw.copies.coming(bar);
    // An arrival that is missing keeps the phase open for bytes that nobody expects yet.
    if pending == 0 && coming + i64::from(bytes) > tx {
        return wrong(format!(
            "phase {phase} of {} has all its arrivals and lacks {tx} bytes, of which {coming} are on their way, and this \
             copy brings {bytes}: whichever lands first ends the phase. Right is an expect_tx of all, or a wait for the \
             phase before the copy",
            name()
        ));
    }
    if e.race().is_some_and(|race| !race.knows_over(t, bar, phase)) {
        return wrong(format!(
            "the copy completes in phase {phase} of {}, and nothing tells its thread that {} is over: under another \
             schedule its bytes count there. Right is a wait for that phase, or for threads that have waited for it",
            name(),
            phase_name(phase - 1)
        ));
    }
    Ok(())
}

/// Marks the source of a store or a copy as being read.
fn source(e: &mut Engine, (cta, src, bytes): (usize, u32, u32)) -> Result<(), Fault> {
    e.operands(|| [u64::from(src), u64::from(bytes)]);
    e.hw.smem[cta].begin_read(src, bytes).map_err(|c| e.hw.conflict(cta, c))?;
    e.guided(|guide| guide.touch(cta as u64, u64::from(src), u64::from(bytes), false));
    Ok(())
}

/// `cp.async.bulk.tensor` to shared memory.
pub(crate) fn tensor_load(
    e: &mut Engine,
    t: u32,
    dst: u32,
    (pointer, coords): (MapPointer, &[i32]),
    bar: u32,
    goes: To,
) -> Result<(), Fault> {
    let map = tensormap::of(e, t, pointer, coords.len())?;
    let (cta, dst) = e.hw.split(t, dst, map.box_bytes())?;
    let (bar_cta, bar) = e.hw.split(t, bar, 8)?;
    check::box_address("destination", dst, &map)?;
    check::coordinates(&map, coords)?;
    let (bytes, coords) = (map.box_bytes(), five(coords));
    let ctas = e.hw.ctas.len();
    let to = match goes {
        To::Pair => {
            check::one_pair(cta, bar_cta)?;
            if bar_cta != e.hw.thread(t).cta {
                e.told(t, |race, thread| race.reaches(thread, bar_cta));
            }
            1 << cta
        }
        To::One => {
            check::one_cta(cta, bar_cta)?;
            1 << cta
        }
        To::Mask(mask) => {
            check::one_cta(cta, bar_cta)?;
            check::multicast(mask, ctas)?;
            mask
        }
    };
    let mut bars = Vec::new();
    for rank in (0..ctas).filter(|rank| to >> rank & 1 == 1) {
        let at = if let To::Mask(_) = goes {
            // The same offsets in each destination; each must be there to receive.
            e.hw.split(t, ranked(dst, rank as u32), 0)?;
            (rank, bar)
        } else {
            (bar_cta, bar)
        };
        let to = target(e, t, (rank, dst, bytes), at)?;
        let phase = e.hw.mbarriers.get(to.bar).state.phase;
        let address = boxes::first(&map, coords).unwrap_or(map.addr);
        e.checked_global(t, address, |race, thread, base| {
            race.global_source(thread, base, (to.bar, phase), |f| {
                boxes::spans(&map, coords, false, f);
            })
        })?;
        start(e, t, Kind::TensorLoad { map: map.clone(), coords, to });
        if tensormap::in_memory(pointer) {
            bars.push((to.bar, phase));
        }
    }
    let group = e.hw.copies.bulk[t as usize].open() + 1;
    tensormap::used(e, t, pointer, &bars, group)
}

/// A store or reduction joins the thread's open bulk group, whose number, from 1, it gives.
fn store(e: &mut Engine, t: u32, src: u32, bytes: u32, sink: Sink) -> Result<u64, Fault> {
    let (cta, src) = e.hw.own(t, src, bytes)?;
    source(e, (cta, src, bytes))?;
    let line = e.hw.line(t);
    let group = e.hw.copies.bulk[t as usize].add(line);
    let number = group + 1;
    e.checked(t, |race, thread| race.store_source(thread, (cta, src, bytes), number))?;
    e.checked_global(t, sink.address(), |race, thread, base| {
        let strong = sink.combine() != Combine::Store;
        race.global_sink(thread, base, (number, strong), |f| sink.spans(bytes, f))
    })?;
    start(e, t, Kind::StoreRead { group, cta, src, bytes, sink });
    Ok(number)
}

/// `cp.async.bulk.tensor` to global memory, or `cp.reduce.async.bulk.tensor`.
pub(crate) fn tensor_store(
    e: &mut Engine,
    t: u32,
    (pointer, coords): (MapPointer, &[i32]),
    src: u32,
    combine: Combine,
) -> Result<(), Fault> {
    let map = tensormap::of(e, t, pointer, coords.len())?;
    check::box_address("source", e.hw.own(t, src, 0)?.1, &map)?;
    check::store(&map, coords, combine)?;
    let bytes = map.box_bytes();
    let group = store(e, t, src, bytes, Sink::Tensor { map, coords: five(coords), combine })?;
    tensormap::used(e, t, pointer, &[], group)
}

/// `cp.async.bulk` from global memory to shared memory.
pub(crate) fn run_load(e: &mut Engine, t: u32, run: Run, bar: u32) -> Result<(), Fault> {
    let Run { smem, global, bytes } = run;
    check::run(smem, global, bytes)?;
    let (cta, dst) = e.hw.own(t, smem, bytes)?;
    let (_, bar) = e.hw.own(t, bar, 8)?;
    let to = target(e, t, (cta, dst, bytes), (cta, bar))?;
    let phase = e.hw.mbarriers.get(to.bar).state.phase;
    e.checked_global(t, global, |race, thread, base| {
        let part = |f: &mut dyn FnMut(u64, u64)| f(global, u64::from(bytes));
        race.global_source(thread, base, (to.bar, phase), part)
    })?;
    start(e, t, Kind::RunLoad { src: global, to });
    Ok(())
}

/// `cp.async.bulk` from shared memory to global memory, or `cp.reduce.async.bulk`.
pub(crate) fn run_store(
    e: &mut Engine,
    t: u32,
    run: Run,
    combine: Combine,
    dtype: DataType,
) -> Result<(), Fault> {
    let Run { smem, global, bytes } = run;
    check::run(smem, global, bytes)?;
    store(e, t, smem, bytes, Sink::Run { dst: global, combine, dtype })?;
    Ok(())
}

/// `cp.async.bulk` from shared memory to that of a CTA of the cluster.
pub(crate) fn copy_to_cta(
    e: &mut Engine,
    t: u32,
    (dst, src): (u32, u32),
    bytes: u32,
    bar: u32,
) -> Result<(), Fault> {
    check::run(src, u64::from(dst), bytes)?;
    let (cta, src) = e.hw.own(t, src, bytes)?;
    let (to_cta, dst) = e.hw.split(t, dst, bytes)?;
    let (bar_cta, bar) = e.hw.split(t, bar, 8)?;
    check::one_cta(to_cta, bar_cta)?;
    source(e, (cta, src, bytes))?;
    e.checked(t, |race, thread| race.copy_source(thread, (cta, src, bytes)))?;
    let to = target(e, t, (to_cta, dst, bytes), (to_cta, bar))?;
    start(e, t, Kind::Peer { cta, src, to });
    Ok(())
}

fn five(coords: &[i32]) -> [i32; 5] {
    std::array::from_fn(|i| coords.get(i).copied().unwrap_or(0))
}
