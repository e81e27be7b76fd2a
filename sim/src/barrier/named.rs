//! Named barriers: sixteen per CTA, counted in threads.
//!
//! PTX manual, *barrier.cta*: `arrive` and `sync` count together; the count is a multiple of the
//! warp size and the same for all who take part; a barrier is used again only after it completed.

use crate::finding::fault::Fault;
use crate::finding::rule::Rule;
use crate::types::loc::Loc;

/// What the threads of a barrier compute together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reduction {
    None,
    Popc,
    And,
    Or,
}

/// One barrier. Nobody uses it while `threads` is 0.
#[derive(Default)]
struct Named {
    /// Threads that this use of the barrier takes.
    threads: u32,
    /// Who has come, and at which line: the arrivers as well.
    come: Vec<(u32, Loc)>,
    sleepers: Vec<u32>,
    reduction: Option<Reduction>,
    ones: u32,
    voters: u32,
}

/// What the last thread of a barrier completes.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Met {
    /// The threads that slept there.
    pub sleepers: Vec<u32>,
    /// The reduction.
    pub value: u32,
}

/// A barrier in use, for reports.
pub(crate) struct InUse {
    pub cta: usize,
    pub id: usize,
    pub come: usize,
    pub threads: u32,
}

/// The named barriers of a cluster's CTAs.
pub(crate) struct NamedBarriers {
    by_cta: Vec<[Named; 16]>,
    /// Threads of a CTA.
    block: u32,
}

impl NamedBarriers {
    pub fn new(ctas: u32, block: u32) -> Self {
        let empty = |_| std::array::from_fn(|_| Named::default());
        Self { by_cta: (0..ctas).map(empty).collect(), block }
    }

    /// A thread arrives at barrier `id` of its CTA; `wait` says whether it waits, and with what vote.
    /// Gives what the barrier completes, if the thread is the last.
    pub fn come(
        &mut self,
        cta: usize,
        (t, loc): (u32, Loc),
        id: u32,
        threads: u32,
        wait: Option<(Reduction, bool)>,
    ) -> Result<Option<Met>, Fault> {
        let wrong = |message: String| Fault::new(Rule::NamedBarrier, message);
        let all = self.block;
        let Some(slot) = self.by_cta[cta].get_mut(id as usize) else {
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
            .against(format!("{have} threads, said by thread {}", other % all), at));
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
        if slot.come.len() < threads as usize {
            if wait.is_some() {
                slot.sleepers.push(t);
            }
            return Ok(None);
        }
        let done = std::mem::take(slot);
        let value = match done.reduction {
            Some(Reduction::Popc) => done.ones,
            Some(Reduction::And) => u32::from(done.ones == done.voters),
            Some(Reduction::Or) => u32::from(done.ones > 0),
            Some(Reduction::None) | None => 0,
        };
        Ok(Some(Met { sleepers: done.sleepers, value }))
    }

    /// The protocol state: who has come where.
    pub fn protocol(&self, f: &mut impl FnMut(u64)) {
        for (i, n) in self.by_cta.iter().flatten().enumerate().filter(|(_, n)| n.threads > 0) {
            f((i as u64) << 32 | u64::from(n.threads));
            let mut come: Vec<u32> = n.come.iter().map(|c| c.0).collect();
            come.sort_unstable();
            come.into_iter().for_each(|t| f(u64::from(t)));
        }
    }

    /// The barriers at which somebody has come.
    pub fn in_use(&self) -> impl Iterator<Item = InUse> {
        self.by_cta.iter().enumerate().flat_map(|(cta, all)| {
            let used = all.iter().enumerate().filter(|(_, n)| n.threads > 0);
            used.map(move |(id, n)| InUse { cta, id, come: n.come.len(), threads: n.threads })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::Location;

    #[test]
    fn the_last_to_come_completes_the_barrier_and_frees_it() {
        let mut named = NamedBarriers::new(1, 64);
        let here = Location::caller();
        for t in 0..32 {
            assert_eq!(named.come(0, (t, here), 3, 64, None).unwrap(), None);
        }
        for t in 32..63 {
            let vote = Some((Reduction::Popc, t % 2 == 0));
            assert_eq!(named.come(0, (t, here), 3, 64, vote).unwrap(), None);
        }
        let vote = Some((Reduction::Popc, true));
        let met = named.come(0, (63, here), 3, 64, vote).unwrap().expect("all have come");
        assert_eq!((met.sleepers.len(), met.value), (31, 17));
        assert_eq!(named.in_use().count(), 0);
    }

    #[test]
    fn a_use_has_one_count_and_takes_each_thread_once() {
        let mut named = NamedBarriers::new(2, 64);
        let here = Location::caller();
        let rule = |r: Result<Option<Met>, Fault>| r.unwrap_err().rule;
        assert_eq!(rule(named.come(0, (0, here), 16, 32, None)), Rule::NamedBarrier);
        assert_eq!(rule(named.come(0, (0, here), 0, 33, None)), Rule::NamedBarrier);
        named.come(1, (70, here), 0, 32, None).unwrap();
        assert_eq!(rule(named.come(1, (70, here), 0, 32, None)), Rule::NamedBarrier);
        let fault = named.come(1, (71, here), 0, 64, None).unwrap_err();
        assert!(fault.other.unwrap().0.ends_with("thread 6"), "an index in the CTA");
        assert!(named.come(0, (0, here), 0, 64, None).is_ok(), "each CTA has its own");
    }
}
