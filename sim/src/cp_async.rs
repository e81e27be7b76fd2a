//! `cp.async`: 16 bytes at a time, in the generic proxy, in groups of their own.

use crate::Rule;
use crate::barriers::Arrive;
use crate::bulk::Kind;
use crate::cluster::Cluster;
use crate::explore::guide::GLOBAL;
use crate::explore::order::{Key, QUEUE};
use crate::fault::Fault;
use crate::race::Agent;
use crate::thread::{Loc, Wait, Wake};
use std::collections::VecDeque;
use std::task::Poll;

/// A thread's copies, oldest first. They land in order.
#[derive(Default)]
pub(crate) struct CpAsync {
    queue: VecDeque<Item>,
    issued: u64,
    landed: u64,
    /// Copies of the groups that the thread has waited for.
    waited: u64,
    /// How many copies had been issued at the end of each group that may be pending.
    groups: VecDeque<u64>,
}

enum Item {
    Copy {
        cta: usize,
        dst: u32,
        src: u64,
        /// Bytes that are read; the others of the 16 become zero.
        read: usize,
        loc: Loc,
    },
    /// `cp.async.mbarrier.arrive.noinc`: arrives when all copies before it have landed.
    Arrive { bar: usize },
}

impl CpAsync {
    /// Where the copy in flight was issued that writes to an address.
    pub fn writes(&self, in_cta: usize, addr: u32) -> Option<Loc> {
        self.queue.iter().find_map(|i| match i {
            Item::Copy { cta, dst, loc, .. } if *cta == in_cta && addr.wrapping_sub(*dst) < 16 => {
                Some(*loc)
            }
            _ => None,
        })
    }

    /// Where a copy that nobody has waited for was issued.
    pub fn left_over(&self) -> Option<Loc> {
        self.queue
            .iter()
            .find_map(|i| if let Item::Copy { loc, .. } = i { Some(*loc) } else { None })
    }
}

impl Cluster {
    pub fn cp_async(&mut self, t: u32, dst: u32, src: u64, read: u32) -> Result<(), Fault> {
        let (cta, dst) = self.own(t, dst)?;
        for (what, addr) in [("shared address", u64::from(dst)), ("global address", src)] {
            if !addr.is_multiple_of(16) {
                let message = format!("{what} {addr:#x} is not a multiple of 16");
                return Err(Fault::new(Rule::Misaligned, message));
            }
        }
        if read > 16 {
            let message = format!("{read} bytes to read for a copy of 16");
            return Err(Fault::new(Rule::Misaligned, message));
        }
        self.ctas[cta].smem.begin_write(dst, 16).map_err(|c| self.conflict(cta, c))?;
        if let Some(guide) = &mut self.guide {
            guide.touch(cta as u64, u64::from(dst), 16, true);
        }
        let n = self.threads[t as usize].cp.issued + 1;
        self.race_cp_async(t, (cta, dst, 16), n)?;
        if read > 0 {
            self.race_gread(t, src, u64::from(read), n)?;
        }
        let loc = self.threads[t as usize].loc.expect("the instruction has begun");
        self.queue_cp_async(t, Item::Copy { cta, dst, src, read: read as usize, loc });
        Ok(())
    }

    pub fn cp_async_arrive(&mut self, t: u32, addr: u32) -> Result<(), Fault> {
        let bar = self.bar_at(self.own(t, addr)?)?;
        self.race_uses(t, bar, false)?;
        self.queue_cp_async(t, Item::Arrive { bar });
        Ok(())
    }

    fn queue_cp_async(&mut self, t: u32, item: Item) {
        let thread = &mut self.threads[t as usize];
        thread.cp.queue.push_back(item);
        thread.cp.issued += 1;
        self.start(t, Kind::CpAsync);
    }

    pub fn cp_async_commit(&mut self, t: u32) {
        let cp = &mut self.threads[t as usize].cp;
        cp.groups.push_back(cp.issued);
    }

    pub fn cp_async_wait(&mut self, t: u32, left: u32) -> Poll<()> {
        self.woken(t);
        loop {
            let cp = &mut self.threads[t as usize].cp;
            if cp.groups.len() <= left as usize {
                let waited = cp.waited;
                self.edge(|race| race.learns(t, Agent::CpAsync(t), waited));
                let loc = self.threads[t as usize].loc;
                self.timed(|time| time.cp_waited(t, loc, waited, left));
                return Poll::Ready(());
            }
            if cp.groups[0] > cp.landed {
                self.sleep(t, Wait::CpAsync { left });
                return Poll::Pending;
            }
            cp.waited = cp.groups.pop_front().unwrap_or(cp.waited);
            let landed = cp.waited;
            if let Some(guide) = &mut self.guide {
                guide.order.groups(t | QUEUE, landed, false);
            }
        }
    }

    pub fn land_cp_async(&mut self, t: u32) -> Result<(), Fault> {
        let cp = &mut self.threads[t as usize].cp;
        let nth = cp.landed;
        cp.landed += 1;
        match cp.queue.pop_front() {
            Some(Item::Copy { cta, dst, src, read, .. }) => {
                if let Some(guide) = &mut self.guide {
                    guide.touch(cta as u64, u64::from(dst), 16, true);
                    guide.touch(GLOBAL, src, read as u64, false);
                }
                let smem = &mut self.ctas[cta].smem;
                let bytes = smem.end_write(dst, 16).expect("checked when it started");
                let (data, zeros) = bytes.split_at_mut(read);
                if !data.is_empty() {
                    self.memory.read(src, data)?;
                }
                zeros.fill(0);
            }
            Some(Item::Arrive { bar }) => {
                let landed = cp.landed;
                self.edge(|race| race.cp_async_arrives(t, bar, landed));
                self.mbarrier_arrive(t, bar, 1, Arrive::Plain, None)?;
            }
            None => {}
        }
        if let Some(guide) = &mut self.guide {
            guide.order.come(Key::Group(t | QUEUE, nth, false));
        }
        let thread = &self.threads[t as usize];
        if matches!(thread.wait, Wait::CpAsync { .. }) && thread.wake == Wake::No {
            self.wake(t, 0);
        }
        Ok(())
    }
}
