//! Named barriers: sixteen per CTA, counted in warps.
//!
//! PTX manual, *barrier.cta*: `arrive` and `sync` count together; the count is a multiple of the
//! warp size and the same for all who take part; a barrier is used again only after it completed. A
//! warp arrives when all its threads that have not returned have come, and counts as 32 threads,
//! however many came.

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

/// A thread that has come.
struct Come {
    t: u32,
    warp: u32,
    loc: Loc,
    /// Its vote, if it waits.
    vote: Option<bool>,
}

/// A warp of which some lanes have come.
#[derive(Clone, Copy)]
struct Part {
    warp: u32,
    lanes: u32,
    whole: bool,
}

/// Uses of a barrier that completed with fewer threads than its count, for lanes had returned.
struct Short {
    threads: u32,
    come: u32,
    /// The warps that came, a bit for each.
    warps: u32,
    at: Loc,
}

/// One barrier. Nobody uses it while `threads` is 0.
#[derive(Default)]
struct Named {
    /// Threads that this use of the barrier takes.
    threads: u32,
    come: Vec<Come>,
    parts: Vec<Part>,
    /// Warps that have come whole.
    whole: u32,
    reduction: Option<Reduction>,
    short: Option<Short>,
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
    /// Their names, by CTA.
    names: Vec<[Option<&'static str>; 16]>,
    /// Lanes that have returned, by CTA and warp.
    exited: Vec<Vec<u32>>,
    /// Threads of a CTA.
    block: u32,
}

/// What a report calls barrier `id`, which may have a name.
fn name(name: Option<&'static str>, id: u32) -> String {
    name.map_or_else(
        || format!("named barrier {id}"),
        |name| format!("named barrier {id} (`{name}`)"),
    )
}

impl NamedBarriers {
    pub fn new(ctas: u32, block: u32) -> Self {
        let empty = |_| std::array::from_fn(|_| Named::default());
        let warps = block.div_ceil(32) as usize;
        Self {
            by_cta: (0..ctas).map(empty).collect(),
            names: vec![[None; 16]; ctas as usize],
            exited: (0..ctas).map(|_| vec![0; warps]).collect(),
            block,
        }
    }

    /// Names barrier `id` of a CTA.
    pub fn label(&mut self, cta: usize, id: u32, name: &'static str) {
        if let Some(slot) = self.names[cta].get_mut(id as usize) {
            *slot = Some(name);
        }
    }

    /// What a report calls barrier `id` of a CTA.
    pub fn name(&self, cta: usize, id: u32) -> String {
        name(self.names[cta].get(id as usize).copied().flatten(), id)
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
            let Come { t: other, loc: at, .. } = slot.come[0];
            let have = slot.threads;
            return Err(wrong(format!(
                "{} used with {threads} and with {have} threads",
                name(self.names[cta][id as usize], id)
            ))
            .against(format!("{have} threads, said by thread {}", other % all), at));
        }
        let (warp, lane) = (t % all / 32, 1 << (t % all % 32));
        let found = slot.parts.iter().position(|p| p.warp == warp);
        let part = found.unwrap_or_else(|| {
            slot.parts.push(Part { warp, lanes: 0, whole: false });
            slot.parts.len() - 1
        });
        if slot.parts[part].lanes & lane != 0 {
            let first = slot.come.iter().find(|c| c.t == t).map(|c| c.loc);
            return Err(wrong(format!(
                "a thread arrives at named barrier {id} twice in one use: {} of {threads} threads \
                 have come, and nothing stopped it from lapping them",
                slot.come.len()
            ))
            .against("its first arrival", first.unwrap_or(loc)));
        }
        if let Some((reduction, _)) = wait
            && *slot.reduction.get_or_insert(reduction) != reduction
        {
            return Err(wrong(format!("named barrier {id} with different reductions")));
        }
        slot.parts[part].lanes |= lane;
        slot.come.push(Come { t, warp, loc, vote: wait.map(|(_, p)| p) });
        let (exited, lanes) = (self.exited[cta][warp as usize], lanes(all, warp));
        slot.settle(id, part, exited, lanes, Some(t))
    }

    /// A thread returns. What its warp was waiting for may have come whole: gives the barriers that
    /// this completes. A fault comes with the line at which the thread that it concerns waits.
    pub fn exit(&mut self, cta: usize, t: u32) -> Result<Vec<(u32, Met)>, (Fault, Loc)> {
        let all = self.block;
        let warp = t % all / 32;
        let exited = &mut self.exited[cta][warp as usize];
        *exited |= 1 << (t % all % 32);
        let mut done = Vec::new();
        for (id, slot) in (0..).zip(&mut self.by_cta[cta]) {
            let Some(part) = slot.parts.iter().position(|p| p.warp == warp && !p.whole) else {
                continue;
            };
            let at = slot.come[0].loc;
            let met = slot.settle(id, part, *exited, lanes(all, warp), None);
            done.extend(met.map_err(|fault| (fault, at))?.map(|met| (id, met)));
        }
        Ok(done)
    }

    /// Whether the warp of a thread has come whole to the use of a barrier that is in progress.
    pub fn has_come(&self, cta: usize, id: u32, t: u32) -> bool {
        let warp = t % self.block / 32;
        self.by_cta[cta][id as usize].parts.iter().any(|p| p.warp == warp && p.whole)
    }

    /// The threads that have come to a barrier, and for how many it is used.
    pub fn who(&self, cta: usize, id: u32) -> (Vec<u32>, u32) {
        let slot = &self.by_cta[cta][id as usize];
        (slot.come.iter().map(|c| c.t).collect(), slot.threads)
    }

    /// The protocol state: who has come where.
    pub fn protocol(&self, f: &mut impl FnMut(u64)) {
        for (i, n) in self.by_cta.iter().flatten().enumerate().filter(|(_, n)| n.threads > 0) {
            f((i as u64) << 32 | u64::from(n.threads));
            let mut come: Vec<u32> = n.come.iter().map(|c| c.t).collect();
            come.sort_unstable();
            for t in come {
                f(u64::from(t));
            }
        }
    }

    /// The barriers at which somebody has come.
    pub fn in_use(&self) -> impl Iterator<Item = InUse> {
        self.by_cta.iter().enumerate().flat_map(|(cta, all)| {
            let used = all.iter().enumerate().filter(|(_, n)| n.threads > 0);
            used.map(move |(id, n)| InUse { cta, id, come: n.come.len(), threads: n.threads })
        })
    }

    /// A barrier that would be complete if threads counted, and is not, for warps do: the thread
    /// that came last, its line, and what is wrong. Asked when nobody can go on.
    pub fn miscounted(&self) -> Option<(u32, Loc, Fault)> {
        self.by_cta.iter().flat_map(|all| (0u32..).zip(all)).find_map(|(id, n)| {
            let last = n.come.last().filter(|_| n.come.len() >= n.threads as usize)?;
            let come = n.parts.iter().map(|p| (p.warp, p.lanes.count_ones()));
            let fault = halves(id, n.threads, n.come.len() as u32, come);
            Some((last.t, last.loc, fault))
        })
    }
}

/// The lanes that a warp of a CTA has.
fn lanes(block: u32, warp: u32) -> u32 {
    u32::MAX >> (32 - (block - warp * 32).min(32))
}

/// Parts of warps that came to a barrier, as if threads counted there.
fn halves(id: u32, threads: u32, come: u32, parts: impl Iterator<Item = (u32, u32)>) -> Fault {
    let parts: Vec<String> = parts.map(|(w, n)| format!("{n} threads of warp {w}")).collect();
    let message = format!(
        "named barrier {id} for {threads} threads counts whole warps, each as 32 threads, and waits \
         for the rest of a warp: {come} threads have come ({}), where {} whole warps would do",
        parts.join(", "),
        threads.div_ceil(32)
    );
    Fault::new(Rule::NamedBarrier, message)
}

impl Named {
    /// Looks whether a warp has come whole, and whether this completes the barrier; `last` is the
    /// thread that came, if it is not an exit that may complete it.
    fn settle(
        &mut self,
        id: u32,
        part: usize,
        exited: u32,
        lanes: u32,
        last: Option<u32>,
    ) -> Result<Option<Met>, Fault> {
        let part = &mut self.parts[part];
        if part.lanes | exited != lanes {
            return Ok(None);
        }
        part.whole = true;
        self.whole += 1;
        if self.whole * 32 < self.threads {
            return Ok(None);
        }
        let warps = self.parts.iter().filter(|p| p.whole).fold(0, |m, p| m | 1u32 << p.warp);
        let mine = |c: &Come| warps >> c.warp & 1 == 1;
        if exited != 0 || self.short.is_some() {
            self.short(id, warps)?;
        }
        let (threads, reduction) = (self.threads, self.reduction.take());
        let done: Vec<Come> = if self.parts.len() == self.whole as usize {
            self.threads = 0;
            self.parts.clear();
            std::mem::take(&mut self.come)
        } else {
            // Who has come of a warp that is not whole stays for the next use.
            self.parts.retain(|p| !p.whole);
            self.reduction = reduction;
            let (done, rest) = std::mem::take(&mut self.come).into_iter().partition(mine);
            self.come = rest;
            self.threads = threads;
            done
        };
        self.whole = 0;
        let votes = || done.iter().filter_map(|c| c.vote);
        let value = match reduction {
            Some(Reduction::Popc) => votes().filter(|p| *p).count() as u32,
            Some(Reduction::And) => u32::from(votes().all(|p| p)),
            Some(Reduction::Or) => u32::from(votes().any(|p| p)),
            Some(Reduction::None) | None => 0,
        };
        let sleeps = |c: &&Come| c.vote.is_some() && Some(c.t) != last;
        Ok(Some(Met { sleepers: done.iter().filter(sleeps).map(|c| c.t).collect(), value }))
    }

    /// A use completes. If lanes have returned, it may have come from parts of warps that together
    /// have the threads of the count: as if threads counted.
    fn short(&mut self, id: u32, warps: u32) -> Result<(), Fault> {
        let come = self.come.iter().filter(|c| warps >> c.warp & 1 == 1).count() as u32;
        let at = self.come[0].loc;
        let before = self.short.take();
        if come >= self.threads {
            return Ok(());
        }
        let mut now = Short { threads: self.threads, come, warps, at };
        if let Some(before) = before
            && before.threads == now.threads
            && before.warps & now.warps == 0
        {
            now.come += before.come;
            now.warps |= before.warps;
            if now.come == now.threads {
                let each = self.parts.iter().filter(|p| p.whole);
                let each = each.map(|p| (p.warp, p.lanes.count_ones()));
                let fault = halves(id, now.threads, now.come, each);
                return Err(fault.against("the barrier completed without them", before.at));
            }
        }
        self.short = Some(now);
        Ok(())
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

    #[test]
    fn a_warp_counts_when_it_is_whole_and_as_32() {
        let mut named = NamedBarriers::new(1, 96);
        let here = Location::caller();
        let wait = Some((Reduction::None, false));
        // Half of warp 0 and half of warp 1 have the threads of the count, and are no warp.
        for t in (0..16).chain(32..48) {
            assert_eq!(named.come(0, (t, here), 1, 32, wait).unwrap(), None);
        }
        let (t, _, fault) = named.miscounted().expect("32 threads have come");
        assert_eq!((t, fault.rule), (47, Rule::NamedBarrier));
        // The rest of warp 0 completes the barrier; warp 1 stays for the next use.
        for t in 16..31 {
            assert_eq!(named.come(0, (t, here), 1, 32, wait).unwrap(), None);
        }
        let met = named.come(0, (31, here), 1, 32, wait).unwrap().expect("a whole warp");
        assert_eq!(met.sleepers, (0..31).collect::<Vec<_>>());
        assert_eq!(named.in_use().map(|n| n.come).collect::<Vec<_>>(), [16]);
        // Lanes that have returned are not waited for.
        for t in 48..63 {
            assert!(named.exit(0, t).unwrap().is_empty());
        }
        let met = named.exit(0, 63).unwrap();
        assert_eq!(met[0].1.sleepers, (32..48).collect::<Vec<_>>());
    }

    #[test]
    fn halves_that_complete_a_barrier_each_alone() {
        let mut named = NamedBarriers::new(1, 64);
        let here = Location::caller();
        for t in (16..32).chain(48..64) {
            named.exit(0, t).unwrap();
        }
        let wait = Some((Reduction::None, false));
        for t in (0..16).chain(32..47) {
            named.come(0, (t, here), 1, 32, wait).unwrap();
        }
        let fault = named.come(0, (47, here), 1, 32, wait).unwrap_err();
        assert_eq!(fault.rule, Rule::NamedBarrier);
    }
}
