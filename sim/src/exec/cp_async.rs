//! `cp.async`: issue, commit, wait, and landing.

use super::{bulk, mbarrier};
use crate::barrier::mbarriers::Arrive;
use crate::copy::check;
use crate::copy::cp_async::Item;
use crate::copy::flight::Kind;
use crate::engine::cluster::Engine;
use crate::finding::fault::Fault;
use crate::race::agents::Agent;
use crate::types::wait::Wait;
use crate::walk::guide::GLOBAL;
use crate::walk::order::{Key, QUEUE};
use std::task::Poll;

/// `cp.async` of 16 bytes, of which `read` are read and the others become zero.
pub(crate) fn copy(e: &mut Engine, t: u32, dst: u32, src: u64, read: u32) -> Result<(), Fault> {
    let (cta, dst) = e.hw.own(t, dst, 16)?;
    check::cp_async(dst, src, read)?;
    e.hw.smem[cta].begin_write(dst, 16).map_err(|c| e.hw.conflict(cta, c))?;
    e.guided(|guide| guide.touch(cta as u64, u64::from(dst), 16, true));
    let n = e.hw.copies.cp_async[t as usize].next();
    e.checked(t, |race, thread| race.cp_async(thread, (cta, dst, 16), n))?;
    if read > 0 {
        let part = (src, u64::from(read));
        e.checked_global(t, src, |race, thread, base| race.global_cp_async(thread, base, part, n))?;
    }
    let loc = e.hw.line(t);
    issue(e, t, Item::Copy { cta, dst, src, read: read as usize, loc });
    Ok(())
}

/// `cp.async.mbarrier.arrive.noinc`
pub(crate) fn arrive(e: &mut Engine, t: u32, addr: u32) -> Result<(), Fault> {
    let bar = e.hw.own_bar(t, addr)?;
    mbarrier::uses(e, t, bar)?;
    issue(e, t, Item::Arrive { bar });
    Ok(())
}

fn issue(e: &mut Engine, t: u32, item: Item) {
    e.hw.copies.cp_async[t as usize].issue(item);
    bulk::start(e, t, Kind::CpAsync);
}

/// `cp.async.commit_group`
pub(crate) fn commit(e: &mut Engine, t: u32) {
    e.hw.copies.cp_async[t as usize].commit();
}

/// `cp.async.wait_group`
pub(crate) fn wait(e: &mut Engine, t: u32, left: u32) -> Poll<()> {
    e.woken(t);
    let (cp, guide) = (&mut e.hw.copies.cp_async[t as usize], &mut e.guide);
    let done = cp.wait(left, |landed| {
        if let Some(guide) = guide {
            guide.order.groups(t | QUEUE, landed, false);
        }
    });
    if !done {
        e.sleep(t, Wait::CpAsync { left });
        return Poll::Pending;
    }
    let waited = e.hw.copies.cp_async[t as usize].waited();
    e.edge(|race| race.learns(t, Agent::CpAsync(t), waited));
    let loc = e.hw.thread(t).loc;
    e.timed(|time| time.cp_waited(t, loc, waited, left));
    Poll::Ready(())
}

/// The oldest item of a thread's queue lands.
pub(crate) fn land(e: &mut Engine, t: u32) -> Result<(), Fault> {
    let (before, item) = e.hw.copies.cp_async[t as usize].land();
    match item {
        Some(Item::Copy { cta, dst, src, read, .. }) => {
            e.guided(|guide| {
                guide.touch(cta as u64, u64::from(dst), 16, true);
                guide.touch(GLOBAL, src, read as u64, false);
            });
            let bytes = e.hw.smem[cta].end_write(dst, 16).expect("checked when it started");
            let (data, zeros) = bytes.split_at_mut(read);
            if !data.is_empty() {
                e.hw.memory.get().read(src, data)?;
            }
            zeros.fill(0);
        }
        Some(Item::Arrive { bar }) => {
            e.edge(|race| race.cp_async_arrives(t, bar, before + 1));
            mbarrier::arrive(e, t, bar, (1, Arrive::Plain, None))?;
        }
        None => {}
    }
    e.guided(|guide| guide.order.come(Key::Group(t | QUEUE, before, false)));
    if e.hw.thread(t).sleeps_on(|wait| matches!(wait, Wait::CpAsync { .. })) {
        e.wake(t, 0);
    }
    Ok(())
}
