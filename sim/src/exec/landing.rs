//! Copies land, at a moment that the scheduler chooses.

use super::{cp_async, groups, mbarrier, tensor};
use crate::copy::boxes;
use crate::copy::flight::{Copy, Kind, Sink, Target};
use crate::engine::cluster::Engine;
use crate::finding::fault::Fault;
use crate::finding::rule::Rule;
use crate::trace::timing::Timing;
use crate::walk::guide::{GLOBAL, Guide};
use crate::walk::order::Key;

/// The copy at a place among those in flight lands.
pub(crate) fn land(e: &mut Engine, place: usize) {
    let copy = e.hw.copies.land(place);
    let (t, loc, landing) = (copy.issuer, copy.loc, copy.landing);
    e.note_landing(t, place, loc);
    e.timed(|time| time.lands(Some((landing, t))));
    if let Err(fault) = take(e, copy) {
        e.fail_at(Some(t), Some(loc), fault);
    }
    e.timed(|time| time.lands(None));
}

fn take(e: &mut Engine, copy: Copy) -> Result<(), Fault> {
    e.guided(|guide| note(guide, &copy));
    let issuer = copy.issuer;
    match copy.kind {
        Kind::TensorLoad { map, coords, to } => {
            let (bytes, memory) = destination(e, to)?;
            boxes::load(memory, &map, coords, to.dst, bytes)?;
            loaded(e, to, None)
        }
        Kind::RunLoad { src, to } => {
            let (bytes, memory) = destination(e, to)?;
            memory.read(src, bytes)?;
            loaded(e, to, None)
        }
        Kind::Answer { words, to } => {
            let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
            destination(e, to)?.0.copy_from_slice(&bytes);
            loaded(e, to, None)
        }
        Kind::Peer { cta, src, to } => {
            let data = source(e, cta, src, to.bytes)?;
            destination(e, to)?.0.copy_from_slice(&data);
            loaded(e, to, Some((cta, src)))
        }
        Kind::StoreRead { group, cta, src, bytes, sink } => {
            let data = source(e, cta, src, bytes)?;
            e.hw.copies.bulk[issuer as usize].read(group);
            let kind = Kind::StoreWrite { group, src, data, sink };
            let landing = Timing::written(copy.landing);
            e.hw.copies.start(Copy { kind, landing, ..copy });
            groups::recheck(e, issuer);
            Ok(())
        }
        Kind::StoreWrite { group, src, data, sink } => {
            let memory = e.hw.memory.get();
            match sink {
                Sink::Tensor { map, coords, combine } => {
                    boxes::store(memory, &map, coords, src, &data, combine)?;
                }
                Sink::Run { dst, combine, dtype } => {
                    boxes::store_run(memory, dst, &data, combine, dtype)?;
                }
            }
            memory.wrote();
            e.hw.copies.bulk[issuer as usize].wrote(group);
            groups::recheck(e, issuer);
            Ok(())
        }
        Kind::CpAsync => cp_async::land(e, issuer),
        Kind::Commit { cta, bar, commit } => {
            tensor::completes(e, (issuer, cta), (bar, commit), copy.loc)
        }
    }
}

/// Where a load lands: its bytes, and the memory that they come from.
fn destination(
    e: &mut Engine,
    to: Target,
) -> Result<(&mut [u8], &crate::memory::global::GlobalMemory), Fault> {
    if !e.hw.ctas.lives(to.cta) {
        let message = format!("{} bytes land in CTA {}, which has exited", to.bytes, to.cta);
        return Err(Fault::new(Rule::PeerGone, message));
    }
    let smem = &mut e.hw.smem[to.cta];
    Ok((smem.end_write(to.dst, to.bytes).expect("checked when it started"), e.hw.memory.get()))
}

/// The bytes of a load are there; `source` is that of a copy from shared memory.
fn loaded(e: &mut Engine, to: Target, source: Option<(usize, u32)>) -> Result<(), Fault> {
    let bar = e.hw.mbarriers.get(to.bar);
    if !e.hw.ctas.lives(bar.cta) {
        let message = format!(
            "{} bytes complete on an mbarrier of CTA {}, which has exited",
            to.bytes, bar.cta
        );
        return Err(Fault::new(Rule::PeerGone, message));
    }
    let at = (to.bar, bar.state.phase);
    e.edge(|race| race.lands((to.cta, to.dst, to.bytes), to.site, at, source));
    mbarrier::complete(e, to.bar, to.bytes)
}

/// Reads the source of a store, or of a copy, which is free then.
fn source(e: &mut Engine, cta: usize, src: u32, bytes: u32) -> Result<Vec<u8>, Fault> {
    let smem = &mut e.hw.smem[cta];
    let data = smem.read(src, bytes).map(<[u8]>::to_vec);
    smem.end_read(src, bytes);
    data.map_err(|c| e.hw.conflict(cta, c))
}

/// Tells the guide what a copy that lands reads, writes and lets go on.
fn note(guide: &mut Guide, copy: &Copy) {
    let t = copy.issuer;
    let shared = |guide: &mut Guide, cta: usize, addr: u32, bytes: u32, write| {
        guide.visit(cta);
        guide.touch(cta as u64, u64::from(addr), u64::from(bytes), write);
    };
    match &copy.kind {
        Kind::TensorLoad { map, coords, to } => {
            shared(guide, to.cta, to.dst, to.bytes, true);
            boxes::spans(map, *coords, false, |addr, len| guide.touch(GLOBAL, addr, len, false));
        }
        Kind::RunLoad { src, to } => {
            shared(guide, to.cta, to.dst, to.bytes, true);
            guide.touch(GLOBAL, *src, u64::from(to.bytes), false);
        }
        Kind::Answer { to, .. } => shared(guide, to.cta, to.dst, to.bytes, true),
        Kind::Peer { cta, src, to } => {
            shared(guide, *cta, *src, to.bytes, false);
            shared(guide, to.cta, to.dst, to.bytes, true);
        }
        Kind::StoreRead { group, cta, src, bytes, .. } => {
            shared(guide, *cta, *src, *bytes, false);
            guide.order.come(Key::Group(t, *group, false));
        }
        Kind::StoreWrite { group, data, sink, .. } => {
            match sink {
                Sink::Tensor { map, coords, .. } => {
                    boxes::spans(map, *coords, true, |addr, len| {
                        guide.touch(GLOBAL, addr, len, true);
                    });
                }
                Sink::Run { dst, .. } => guide.touch(GLOBAL, *dst, data.len() as u64, true),
            }
            guide.order.come(Key::Group(t, *group, true));
        }
        Kind::CpAsync => {}
        Kind::Commit { cta, .. } => guide.visit(*cta),
    }
}
