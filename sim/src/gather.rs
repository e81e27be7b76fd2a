//! Warp-wide instructions: the check that a warp stays together, and the meeting of its lanes.

use crate::Rule;
use crate::cluster::Cluster;
use crate::explore::order::Key;
use crate::fault::Fault;
use crate::thread::{Loc, Wait, Wake};
use std::collections::VecDeque;
use std::task::Poll;

/// The `.aligned` instructions of a warp, as far as some lane has not executed them yet. Each lane
/// must execute the same ones in the same order; a lane may run ahead of the others through those
/// that exchange nothing.
#[derive(Default)]
pub(crate) struct Log {
    first: u64,
    entries: VecDeque<Entry>,
}

struct Entry {
    name: &'static str,
    loc: Loc,
    lanes: u32,
}

impl Log {
    /// The oldest instruction that the lane has not executed, though another lane has.
    pub fn missed(&self, executed: u64) -> Option<(&'static str, Loc)> {
        let e = self.entries.get(executed.checked_sub(self.first)? as usize)?;
        Some((e.name, e.loc))
    }
}

/// What the lanes of a warp do when all have come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Meet {
    Sync,
    Elect,
    ShflIdx,
    ShflXor,
    ShflUp,
    ShflDown,
    Ballot,
    LdMatrix { n: u8, trans: bool },
    StMatrix { n: u8, trans: bool },
    Registers { n: u32, more: bool },
}

/// The lanes that wait for the rest of their warp, and what the last meeting gave.
#[derive(Default)]
pub(crate) struct WarpGather {
    pub come: u32,
    meet: Option<(Meet, Loc)>,
    pub given: [[u32; 4]; 32],
    pub operand: [u32; 32],
    pub result: [[u32; 4]; 32],
}

fn same_line(a: Loc, b: Loc) -> bool {
    std::ptr::eq(a, b) || a == b
}

impl Cluster {
    /// Checks an `.aligned` instruction against the rest of the warp.
    pub fn aligned(&mut self, t: u32, name: &'static str) -> Result<(), Fault> {
        let thread = &mut self.threads[t as usize];
        let loc = thread.loc.expect("the instruction has begun");
        let (lane, executed) = (thread.lane(), thread.aligned);
        thread.aligned += 1;
        let warp = &mut self.warps[thread.warp];
        let log = &mut warp.log;
        let at = (executed - log.first) as usize;
        if at == log.entries.len() {
            // A lane that has returned had executed all that any lane had: it misses this one.
            if warp.exited != 0 {
                let lanes = warp.exited;
                let message = format!("{name} after lanes {lanes:#010x} of the warp have returned");
                return Err(Fault::new(Rule::Diverged, message));
            }
            log.entries.push_back(Entry { name, loc, lanes: 0 });
        }
        let e = &mut log.entries[at];
        if e.name != name || !same_line(e.loc, loc) {
            let message = format!(
                "lane {lane} executes {name} where lanes {:#010x} of its warp executed {}",
                e.lanes, e.name
            );
            return Err(Fault::new(Rule::Diverged, message).against(e.name, e.loc));
        }
        e.lanes |= 1 << lane;
        while log.entries.front().is_some_and(|e| e.lanes == warp.lanes) {
            log.entries.pop_front();
            log.first += 1;
        }
        Ok(())
    }

    /// Meets the rest of the warp: all lanes give a value and an operand, and get a result.
    pub fn meet(
        &mut self,
        t: u32,
        name: &'static str,
        meet: Meet,
        value: [u32; 4],
        operand: u32,
    ) -> Result<Poll<[u32; 4]>, Fault> {
        let (lane, w) = {
            let thread = &self.threads[t as usize];
            (thread.lane() as usize, thread.warp)
        };
        if let Wake::Go(_) = self.woken(t) {
            return Ok(Poll::Ready(self.warps[w].gather.result[lane]));
        }
        self.aligned(t, name)?;
        let loc = self.threads[t as usize].loc.expect("the instruction has begun");
        let gather = &mut self.warps[w].gather;
        // The line and the name agree, by the log; what the instruction does must agree as well.
        match gather.meet {
            Some((other, at)) if other != meet => {
                let message = format!("lanes of a warp execute {meet:?} and {other:?}");
                return Err(Fault::new(Rule::Diverged, message).against("the other", at));
            }
            Some(_) => {}
            None => gather.meet = Some((meet, loc)),
        }
        gather.given[lane] = value;
        gather.operand[lane] = operand;
        gather.come |= 1 << lane;
        let all = gather.come == self.warps[w].lanes;
        self.came(Key::Warp(w), all);
        if !all {
            self.sleep(t, Wait::Warp { op: name });
            return Ok(Poll::Pending);
        }
        let gather = &mut self.warps[w].gather;
        gather.come = 0;
        gather.meet = None;
        let first = t - lane as u32;
        if let Some(guide) = &mut self.guide {
            for l in (0..32).filter(|l| self.warps[w].lanes >> l & 1 == 1) {
                guide.order.pass_on(first + l);
            }
        }
        match meet {
            Meet::LdMatrix { n, trans } => self.load_matrices(t, w, n, trans)?,
            Meet::StMatrix { n, trans } => self.store_matrices(t, w, n, trans)?,
            Meet::Registers { n, more } => {
                if !self.registers(t, w, n, more)? {
                    // The lanes before it sleep already, as the warp's request does.
                    for l in (0..32).filter(|l| self.warps[w].lanes >> l & 1 == 1) {
                        self.threads[(first + l) as usize].wait = Wait::Registers { want: n };
                    }
                    self.sleep(t, Wait::Registers { want: n });
                    return Ok(Poll::Pending);
                }
            }
            Meet::Sync => {
                let lanes = self.warps[w].lanes;
                self.edge(|race| race.meet(members(first, lanes)));
            }
            _ => exchange(meet, self.warps[w].lanes, &mut self.warps[w].gather),
        }
        let lanes = self.warps[w].lanes;
        self.timed(|time| time.meets(t, members(first, lanes)));
        self.wake_warp(w, first, Some(t));
        Ok(Poll::Ready(self.warps[w].gather.result[lane]))
    }

    /// A thread comes to a meeting; the last to come knows what all knew.
    pub fn came(&mut self, key: Key, last: bool) {
        if let Some(guide) = &mut self.guide {
            guide.order.come(key);
            if last {
                guide.order.meet(key);
            }
        }
    }

    /// Wakes the lanes of a warp, but for one that is awake.
    pub fn wake_warp(&mut self, w: usize, first: u32, awake: Option<u32>) {
        let lanes = self.warps[w].lanes;
        for l in (0..32).filter(|l| lanes >> l & 1 == 1) {
            if Some(first + l) != awake {
                self.wake(first + l, 0);
            }
        }
    }

    /// `bar.warp.sync` with a mask.
    pub fn sync_warp(&mut self, t: u32, mask: u32) -> Result<Poll<()>, Fault> {
        let (lane, w) = {
            let thread = &self.threads[t as usize];
            (thread.lane(), thread.warp)
        };
        let mask = mask & self.warps[w].lanes;
        if mask >> lane & 1 == 0 {
            let message = format!("bar.warp.sync {mask:#010x} executed by lane {lane}, not in it");
            return Err(Fault::new(Rule::Diverged, message));
        }
        if let Wake::Go(_) = self.woken(t) {
            return Ok(Poll::Ready(()));
        }
        if mask & self.warps[w].exited != 0 {
            let message = format!("bar.warp.sync {mask:#010x}: some of these lanes have returned");
            return Err(Fault::new(Rule::Diverged, message));
        }
        let loc = self.threads[t as usize].loc;
        let warp = &mut self.warps[w];
        let i = warp.partial.iter().position(|p| p.0 == mask).unwrap_or_else(|| {
            warp.partial.push((mask, 0));
            warp.partial.len() - 1
        });
        warp.partial_loc = loc;
        warp.partial[i].1 |= 1 << lane;
        let all = warp.partial[i].1 == mask;
        self.came(Key::Lanes(w, mask), all);
        let warp = &mut self.warps[w];
        if !all {
            self.sleep(t, Wait::Warp { op: "bar.warp.sync" });
            return Ok(Poll::Pending);
        }
        warp.partial.swap_remove(i);
        let first = t - lane;
        self.edge(|race| race.meet(members(first, mask)));
        self.timed(|time| time.meets(t, members(first, mask)));
        for l in (0..32).filter(|&l| mask >> l & 1 == 1 && l != lane) {
            self.wake(first + l, 0);
        }
        Ok(Poll::Ready(()))
    }
}

/// The threads of some lanes of a warp.
fn members(first: u32, lanes: u32) -> impl Iterator<Item = u32> + Clone {
    (0..32).filter(move |l| lanes >> l & 1 == 1).map(move |l| first + l)
}

/// What the lanes get from each other.
fn exchange(meet: Meet, lanes: u32, g: &mut WarpGather) {
    let ballot =
        (0..32).filter(|&l| lanes >> l & 1 == 1 && g.given[l][0] != 0).fold(0, |b, l| b | 1 << l);
    for lane in 0..32usize {
        let own = g.given[lane][0];
        let arg = g.operand[lane] as usize;
        // PTX manual, shfl.sync: outside the segment a lane gets its own value.
        let from = |l: Option<usize>| match l {
            Some(l) if l < 32 && lanes >> l & 1 == 1 => g.given[l][0],
            _ => own,
        };
        g.result[lane][0] = match meet {
            Meet::Elect => u32::from(lane == lanes.trailing_zeros() as usize),
            Meet::ShflIdx => from(Some(arg & 31)),
            Meet::ShflXor => from(Some(lane ^ arg & 31)),
            Meet::ShflUp => from(lane.checked_sub(arg & 31)),
            Meet::ShflDown => from(Some(lane + (arg & 31))),
            Meet::Ballot => ballot,
            _ => 0,
        };
    }
}
