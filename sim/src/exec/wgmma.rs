//! wgmma: multiply, commit, wait.

use super::warp::{aligned, came};
use crate::engine::cluster::Engine;
use crate::finding::fault::Fault;
use crate::race::agents::Agent;
use crate::types::wait::{Wait, Wake};
use crate::walk::order::Key;
use crate::wgmma::groups::Mma;
use crate::wgmma::operand::Major;
use std::task::Poll;

/// One `wgmma.mma_async`: `d` are the bits of the thread's part of D, `a` those of A if A is in registers.
pub(crate) fn mma(
    e: &mut Engine,
    t: u32,
    d: &mut [u32],
    mma: Mma,
    a: Option<&mut [u32; 4]>,
) -> Result<Poll<()>, Fault> {
    let thread = e.hw.thread(t);
    let (cta, wg, index) = (thread.cta, thread.warp_group(), thread.index);
    if let Wake::Go(_) = e.woken(t) {
        return Ok(Poll::Ready(()));
    }
    aligned(e, t, "wgmma.mma_async")?;
    e.operands(|| {
        let a = mma.a.unwrap_or((u64::MAX, Major::K));
        let majors = [a.1, mma.b.1].map(|major| u64::from(major == Major::Mn));
        let types = mma.types.map(|dtype| dtype as u64);
        let types = types[0] << 34 | types[1] << 37;
        [a.0, mma.b.0, u64::from(mma.n) | majors[0] << 32 | majors[1] << 33 | types]
    });
    let loc = e.hw.line(t);
    let group = e.hw.group_mut(t).open_group();
    let regs = match a {
        None => [0; 4],
        Some(a) => {
            let (held, member) = e.hw.held_mut(t);
            held.read(member, a, (loc, group))?
        }
    };
    let all = e.hw.group_mut(t).come(index, mma, loc, regs)?;
    let (held, member) = e.hw.held_mut(t);
    held.write(member, d, mma.scale_d, (loc, group))?;
    came(e, Key::Warpgroup(cta, wg), all);
    if !all {
        e.sleep(t, Wait::Warpgroup);
        return Ok(Poll::Pending);
    }
    let warp = e.hw.thread(t).warp;
    e.hw.rounds.together(warp)?;
    multiply(e, t, mma)?;
    let product = &e.hw.groups[cta][wg];
    e.hw.held[cta][wg].issued((loc, group), |first, d| product.add(mma, first, d));
    e.stats.wgmmas += 1;
    let first = t - index % 128;
    e.edge(|race| race.together(first..first + 128));
    e.timed(|time| {
        time.meets(t, first..first + 128);
        time.wgmma(t, loc, wg, mma.n);
    });
    for other in (first..first + 128).filter(|&o| o != t) {
        e.wake(other, 0);
    }
    Ok(Poll::Ready(()))
}

/// Checks that each operand stays in the region in which it begins.
fn operands_in_regions(e: &Engine, cta: usize, mma: Mma) -> Result<(), Fault> {
    if e.hw.regions.is_empty() {
        return Ok(());
    }
    for operand in mma.operands()?.iter().flatten() {
        if e.hw.regions.operand(cta, operand.start(), operand.around()).is_ok() {
            continue;
        }
        let (mut first, mut end) = (u32::MAX, 0);
        operand.for_each_chunk(|_, _, addr| (first, end) = (first.min(addr), end.max(addr + 16)));
        e.hw.regions.operand(cta, operand.start(), (first, end))?;
    }
    Ok(())
}

/// `wgmma.fence`
pub(crate) fn fence(e: &mut Engine, t: u32) -> Result<(), Fault> {
    aligned(e, t, "wgmma.fence")?;
    let (held, member) = e.hw.held_mut(t);
    held.fence(member);
    Ok(())
}

/// Reads the operands, holds them, and computes A*B.
fn multiply(e: &mut Engine, t: u32, mma: Mma) -> Result<(), Fault> {
    let (cta, wg) = (e.hw.thread(t).cta, e.hw.thread(t).warp_group());
    let first = t - e.hw.thread(t).index % 128;
    operands_in_regions(e, cta, mma)?;
    let group = &mut e.hw.groups[cta][wg];
    let operands = group.read(&mut e.hw.smem[cta], mma)?.map_err(|c| e.hw.conflict(cta, c))?;
    e.guided(|guide| {
        for o in operands.iter().flatten() {
            o.for_each_chunk(|_, _, addr| guide.touch(cta as u64, u64::from(addr), 16, false));
        }
        guide.order.issue(first);
    });
    let number = e.hw.groups[cta][wg].open_group();
    e.checked(t, |race, thread| race.wgmma(thread, &operands, number))?;
    let line = e.hw.line(t);
    e.hw.groups[cta][wg].multiply(operands, mma, line);
    Ok(())
}

/// `wgmma.commit_group`
pub(crate) fn commit(e: &mut Engine, t: u32) -> Result<(), Fault> {
    aligned(e, t, "wgmma.commit_group")?;
    let (index, wg) = (e.hw.thread(t).index, e.hw.thread(t).warp_group());
    if e.hw.group_mut(t).commit(index) {
        e.timed(|time| time.wgmma_commit(t, wg));
    }
    Ok(())
}

/// `wgmma.wait_group`: retires all but the last `left` groups that this thread committed.
pub(crate) fn wait(e: &mut Engine, t: u32, left: u32) -> Result<(), Fault> {
    aligned(e, t, "wgmma.wait_group")?;
    let thread = e.hw.thread(t);
    let (cta, wg, index, loc) = (thread.cta, thread.warp_group(), thread.index, thread.loc);
    let (smem, guided) = (&mut e.hw.smem[cta], e.guide.is_some());
    let mut read = Vec::new();
    let retired = e.hw.groups[cta][wg].wait(index, left, |addr| {
        smem.end_read(addr, 16);
        if guided {
            read.push(addr);
        }
    });
    e.guided(|guide| guide.retire(t - index % 128, cta, &read));
    e.hw.held[cta][wg].waited((index % 128) as usize, retired);
    e.edge(|race| race.learns(t, Agent::Warpgroup { cta, wg }, retired));
    e.timed(|time| time.wgmma_waited(t, loc, wg, retired, left));
    Ok(())
}
