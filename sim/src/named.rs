//! Named barriers: sixteen slots per CTA, counted in threads.
//!
//! PTX manual, *barrier.cta*: `arrive` and `sync` count together; the count is a multiple of the
//! warp size and the same for all who take part; a barrier is used again only after it completed.

use crate::Rule;
use crate::cluster::Cluster;
use crate::explore::order::Key;
use crate::fault::Fault;
use crate::race::clock::Released;
use crate::thread::{Loc, Wait, Wake};
use std::task::Poll;

/// What the threads of a barrier compute together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reduction {
    None,
    Popc,
    And,
    Or,
}

/// One slot. Free while `threads` is 0.
#[derive(Default)]
pub(crate) struct Named {
    /// Threads that this use of the slot takes.
    pub threads: u32,
    /// Who has come, and at which line: the arrivers as well.
    pub come: Vec<(u32, Loc)>,
    sleepers: Vec<u32>,
    reduction: Option<Reduction>,
    ones: u32,
    voters: u32,
    released: Released,
}

impl Cluster {
    /// Arrives; `wait` says whether it waits. Gives the reduction.
    pub fn named(
        &mut self,
        t: u32,
        id: u32,
        threads: u32,
        wait: Option<(Reduction, bool)>,
    ) -> Result<Poll<u32>, Fault> {
        if let Wake::Go(value) = self.woken(t) {
            let loc = self.threads[t as usize].loc;
            self.timed(|time| time.synced(t, loc, id, false));
            return Ok(Poll::Ready(value));
        }
        let wrong = |message: String| Fault::new(Rule::NamedBarrier, message);
        let thread = &self.threads[t as usize];
        let loc = thread.loc.expect("the instruction has begun");
        let all = self.block_threads();
        let key_cta = thread.cta;
        let cta = &mut self.ctas[key_cta];
        let Some(slot) = cta.named.get_mut(id as usize) else {
            return Err(wrong(format!("named barrier {id}: there are 16, 0 to 15")));
        };
        // The count of the whole CTA may be ragged, as its last warp is.
        if threads == 0
            || (!threads.is_multiple_of(32) && threads != all)
            || threads > all.next_multiple_of(32)
        {
            return Err(wrong(format!(
                "named barrier {id} for {threads} threads: a multiple of 32 up to {all}"
            )));
        }
        if slot.threads == 0 {
            slot.threads = threads;
        } else if slot.threads != threads {
            let (other, at) = slot.come[0];
            let have = slot.threads;
            return Err(wrong(format!(
                "named barrier {id} used with {threads} and with {have} threads"
            ))
            .against(
                format!("{have} threads, said by thread {}", self.threads[other as usize].index),
                at,
            ));
        }
        if let Some(&(_, at)) = slot.come.iter().find(|&&(other, _)| other == t) {
            return Err(wrong(format!(
                "a thread arrives at named barrier {id} twice in one use: {} of {threads} threads \
                 have come, and nothing stopped it from lapping them",
                slot.come.len()
            ))
            .against("its first arrival", at));
        }
        if let Some((reduction, p)) = wait {
            if *slot.reduction.get_or_insert(reduction) != reduction {
                return Err(wrong(format!("named barrier {id} with different reductions")));
            }
            slot.ones += u32::from(p);
            slot.voters += 1;
        }
        slot.come.push((t, loc));
        if let Some(race) = &mut self.race {
            race.gives(t, &mut slot.released);
        }
        let full = slot.come.len() == threads as usize;
        if wait.is_some() && !full {
            slot.sleepers.push(t);
        }
        let key = Key::Named(key_cta, id);
        if let Some(guide) = &mut self.guide {
            guide.arrive(key, false, full);
        }
        self.timed(|time| time.comes(t, id, full));
        let slot = &mut self.ctas[key_cta].named[id as usize];
        if !full {
            if wait.is_some() {
                self.sleep(t, Wait::Named { id });
                return Ok(Poll::Pending);
            }
            return Ok(Poll::Ready(0));
        }
        if let (Some(guide), true) = (&mut self.guide, wait.is_some()) {
            guide.order.completed_for(key, t);
        }
        let done = std::mem::take(slot);
        let value = match done.reduction {
            Some(Reduction::Popc) => done.ones,
            Some(Reduction::And) => u32::from(done.ones == done.voters),
            Some(Reduction::Or) => u32::from(done.ones > 0),
            Some(Reduction::None) | None => 0,
        };
        self.edge(|race| {
            let waits = wait.is_some().then_some(&t);
            race.take(done.sleepers.iter().chain(waits).copied(), &done.released);
        });
        for s in done.sleepers {
            if let Some(guide) = &mut self.guide {
                guide.order.completed_for(key, s);
            }
            self.wake(s, value);
        }
        if wait.is_some() {
            self.timed(|time| time.synced(t, Some(loc), id, true));
        }
        Ok(Poll::Ready(value))
    }
}
