//! Warp-wide instructions: the check that a warp stays together, and the meeting of its lanes.

use super::given::given;
use super::{matrix, pair, tensor, tensormap};
use crate::engine::cluster::Engine;
use crate::finding::fault::Fault;
use crate::race::state::Race;
use crate::race::times::Lane;
use crate::tensor::pair::Together;
use crate::types::wait::{Wait, Wake};
use crate::walk::order::Key;
use crate::warp::meeting::Meet;
use crate::warp::registers::Grant;
use crate::warp::rounds::Request;
use crate::warp::warps::members;
use std::task::Poll;

/// Checks an `.aligned` instruction against the rest of the warp.
pub(crate) fn aligned(e: &mut Engine, t: u32, name: &'static str) -> Result<(), Fault> {
    let (lane, line) = (e.hw.thread(t).lane(), e.hw.line(t));
    e.hw.warp_mut(t).execute(lane, name, line)
}

/// Meets the rest of the warp: all lanes give a value and an operand, and get a result.
pub(crate) fn meet(
    e: &mut Engine,
    t: u32,
    (name, meet): (&'static str, Meet),
    value: [u32; 4],
    operand: u32,
) -> Result<Poll<[u32; 4]>, Fault> {
    let (lane, w) = (e.hw.thread(t).lane(), e.hw.thread(t).warp);
    let slot = lane as usize;
    if let Wake::Go(_) = e.woken(t) {
        return Ok(Poll::Ready(e.hw.warps[w].meeting.result[slot]));
    }
    aligned(e, t, name)?;
    given(e, t, value)?;
    let line = e.hw.line(t);
    let warp = &mut e.hw.warps[w];
    let lanes = warp.lanes;
    let all = warp.meeting.come(slot, (meet, line), (value, operand), lanes)?;
    came(e, Key::Warp(w), all);
    if !all {
        e.sleep(t, Wait::Warp { op: name });
        return Ok(Poll::Pending);
    }
    let first = t - lane;
    e.guided(|guide| members(first, lanes).for_each(|member| guide.order.pass_on(member)));
    if meet != Meet::Sync {
        e.edge(|race| race.together(members(first, lanes)));
    }
    match meet {
        Meet::LdMatrix { n, trans } => matrix::load(e, t, w, n, trans)?,
        Meet::StMatrix { n, trans } => matrix::store(e, t, w, n, trans)?,
        Meet::TensorAlloc { columns, pair: false } => tensor::alloc(e, t, operand, columns)?,
        Meet::TensorFree { address, columns, pair: false } => {
            tensor::free(e, t, address, columns)?;
        }
        Meet::TensorAlloc { columns, .. } => {
            if !together(e, t, w, Together::Alloc { to: operand, columns })? {
                return Ok(Poll::Pending);
            }
        }
        Meet::TensorFree { address, columns, .. } => {
            if !together(e, t, w, Together::Free { address, columns })? {
                return Ok(Poll::Pending);
            }
        }
        Meet::TensorPermit { pair } => {
            e.hw.pairs.group(pair, name, line)?;
            let cta = e.hw.thread(t).cta;
            e.hw.tensor[cta].relinquish();
        }
        Meet::MapCopy { scope } => tensormap::publish(e, t, w, scope)?,
        Meet::Registers { n, more } => {
            if !registers(e, t, w, n, more)? {
                // The lanes before it sleep already, as the warp's request does.
                let wait = Wait::Registers { want: n };
                members(first, lanes).for_each(|member| e.hw.thread_mut(member).wait = wait);
                e.sleep(t, wait);
                return Ok(Poll::Pending);
            }
        }
        Meet::Sync => e.edge(|race| race.meet(members(first, lanes))),
        Meet::Elect => {
            let leader = e.sched.elects(lanes);
            e.hw.warps[w].meeting.elect(leader);
        }
        _ => e.hw.warps[w].meeting.exchange(meet, lanes),
    }
    e.timed(|time| time.meets(t, members(first, lanes)));
    wake(e, members(first, lanes).filter(|&member| member != t));
    Ok(Poll::Ready(e.hw.warps[w].meeting.result[slot]))
}

/// A thread comes to a meeting; the last to come knows what all knew.
pub(crate) fn came(e: &mut Engine, key: Key, last: bool) {
    e.guided(|guide| guide.order.gather(key, last));
}

/// What the warp does together with one of the other CTA of its pair; whether that has come.
fn together(e: &mut Engine, t: u32, w: usize, what: Together) -> Result<bool, Fault> {
    let line = e.hw.line(t);
    e.hw.pairs.group(true, what.name(), line)?;
    let done = pair::meet(e, t, w, what)?;
    if !done {
        e.sleep(t, Wait::Pair { op: what.name() });
    }
    Ok(done)
}

fn wake(e: &mut Engine, threads: impl Iterator<Item = u32>) {
    for t in threads {
        e.wake(t, 0);
    }
}

/// `bar.warp.sync` with a mask.
pub(crate) fn sync(e: &mut Engine, t: u32, mask: u32) -> Result<Poll<()>, Fault> {
    let (lane, w) = (e.hw.thread(t).lane(), e.hw.thread(t).warp);
    let mask = e.hw.warps[w].masked(lane, mask)?;
    if let Wake::Go(_) = e.woken(t) {
        return Ok(Poll::Ready(()));
    }
    e.hw.warps[w].all_live(mask)?;
    let all = e.hw.warps[w].meeting.come_partly(lane, mask);
    came(e, Key::Lanes(w, mask), all);
    if !all {
        e.sleep(t, Wait::Warp { op: "bar.warp.sync" });
        return Ok(Poll::Pending);
    }
    let first = t - lane;
    e.edge(|race| race.meet(members(first, mask)));
    e.timed(|time| time.meets(t, members(first, mask)));
    wake(e, members(first, mask).filter(|&member| member != t));
    Ok(Poll::Ready(()))
}

/// The warp group's side of `setmaxnreg`: its warps execute the same one, and meet before the next.
fn round(e: &mut Engine, t: u32, w: usize, request: Request) -> Result<(), Fault> {
    let (loc, first) = (e.hw.line(t), e.hw.first_of_warp(w));
    let thread = e.hw.thread(t);
    let lanes: Vec<u32> = members(first, e.hw.warps[w].lanes).collect();
    let group = first - thread.index / 32 % 4 * 32;
    let (hw, race) = e.parts();
    let times = race.map(|race| lanes.iter().map(|&l| race.threads[l as usize].time).collect());
    // One lane may have waited for all, and a shuffle brought the others along.
    let knows = |i: usize, l: usize, time: u32| {
        let other = group + 32 * i as u32 + l as u32;
        let told = |race: &Race| {
            lanes.iter().any(|&l| race.threads[l as usize].knows(Lane::Loose, other, time))
        };
        race.is_none_or(told)
    };
    hw.rounds.execute(w, (request, loc), times.unwrap_or_default(), knows)
}

/// `setmaxnreg` of a whole warp: whether it has its registers.
fn registers(e: &mut Engine, t: u32, w: usize, n: u32, more: bool) -> Result<bool, Fault> {
    let cta = e.hw.thread(t).cta;
    round(e, t, w, Request { n, more })?;
    match e.hw.registers.request(cta, w, n, more)? {
        Grant::Later => Ok(false),
        Grant::Now(served) => {
            for w in served {
                wake(e, members(e.hw.first_of_warp(w), e.hw.warps[w].lanes));
            }
            Ok(true)
        }
    }
}
