//! Model time: the clocks of a cluster's threads and engines, and the events that they time.

use super::cycles;
use super::data::{Cause, Event, What};
use super::unit::Unit;
use crate::types::landing::Landing;
use crate::types::loc::Loc;
use crate::types::wait::Wait;

/// A copy that starts, as far as its time depends on it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Transfer {
    /// A load into the shared memory of a CTA, which completes on an mbarrier. A multicast comes in
    /// once at each.
    Load { cta: usize, addr: u32, bytes: u32, bar: usize },
    /// A store of a bulk group.
    Store { group: u64, bytes: u32 },
    /// A store that has read its source, or an item of the `cp.async` queue.
    Queued,
}

/// An mbarrier's phases.
#[derive(Default)]
struct Phases {
    /// What was last in the phase in progress.
    last: Option<(u64, Cause)>,
    /// When the others were complete.
    done: Vec<u64>,
}

/// A thread's clock, and its copies.
#[derive(Clone, Default)]
struct Clock {
    now: u64,
    /// When it began to wait.
    since: Option<u64>,
    /// Since when it has computed special functions, and how many.
    special: Option<(u64, u32)>,
    /// When its bulk groups have been read and written.
    bulk: Vec<(u64, u64)>,
    /// When each of its `cp.async`s lands.
    cp: Vec<u64>,
}

/// A warp group's wgmmas.
#[derive(Clone, Default)]
struct Group {
    /// The end of the last one.
    last: u64,
    /// The ends of the committed groups.
    committed: Vec<u64>,
}

/// The time of a cluster.
pub(crate) struct Timing {
    threads: Vec<Clock>,
    block: u32,
    phases: Vec<Phases>,
    /// Per CTA.
    inbound: Vec<Unit>,
    outbound: Vec<Unit>,
    tensor: Vec<Unit>,
    groups: Vec<Vec<Group>>,
    /// Who came last in the use in progress, per CTA and number.
    named: Vec<[u64; 16]>,
    /// The same for the cluster's barrier; and when its last phase was complete.
    cluster: (u64, u64),
    /// When the meeting that wakes threads was complete.
    met: u64,
    /// The copy that lands, and who issued it.
    landing: Option<(Landing, u32)>,
    copies: u32,
    step: u64,
    /// Where the events are kept, and how many may be.
    pub events: Option<(Vec<Event>, usize)>,
    pub dropped: u64,
    /// Whether the earliest runs.
    pub leads: bool,
}

impl Timing {
    pub fn new(ctas: u32, block: u32, limit: Option<usize>, leads: bool) -> Self {
        let per_cta = ctas as usize;
        let engines = || (0..ctas).map(|_| Unit::default()).collect();
        Self {
            threads: vec![Clock::default(); per_cta * block as usize],
            block,
            phases: Vec::new(),
            inbound: engines(),
            outbound: engines(),
            tensor: engines(),
            groups: vec![vec![Group::default(); block.div_ceil(128) as usize]; per_cta],
            named: vec![[0; 16]; per_cta],
            cluster: (0, 0),
            met: 0,
            landing: None,
            copies: 0,
            step: 0,
            events: limit.map(|limit| (Vec::new(), limit)),
            dropped: 0,
            leads,
        }
    }

    fn cta(&self, t: u32) -> usize {
        (t / self.block) as usize
    }

    pub fn clock(&self, t: u32) -> u64 {
        self.threads[t as usize].now
    }

    fn note(&mut self, t: u32, from: u64, until: u64, at: Option<Loc>, what: What) {
        let Some((events, limit)) = &mut self.events else { return };
        if events.len() < *limit {
            let at = at.map(Into::into);
            events.push(Event { thread: t, step: self.step, from, until, at, what });
        } else {
            self.dropped += 1;
        }
    }

    /// The thread executes an instruction.
    pub fn begin(&mut self, t: u32, step: u64) {
        self.step = step;
        if let Some((from, count)) = self.threads[t as usize].special.take() {
            self.note(t, from, self.clock(t), None, What::Special { count });
        }
        self.threads[t as usize].now += cycles::INSTRUCTION;
    }

    /// The thread computes a special function.
    pub fn special(&mut self, t: u32) {
        let clock = &mut self.threads[t as usize];
        clock.special.get_or_insert((clock.now, 0)).1 += 1;
        clock.now += cycles::SPECIAL;
    }

    /// The thread goes to sleep.
    pub fn sleeps(&mut self, t: u32) {
        let clock = &mut self.threads[t as usize];
        clock.since.get_or_insert(clock.now);
    }

    /// The thread is woken from `wait` by the one that runs.
    pub fn wakes(&mut self, t: u32, wait: Wait, current: u32) {
        let at = match wait {
            Wait::MBarrier { bar, phase, .. } => self.done(bar, phase),
            Wait::Named { .. } | Wait::Cluster | Wait::Warp { .. } | Wait::Warpgroup => self.met,
            // They look again, and see then.
            Wait::BulkGroups { .. } | Wait::CpAsync { .. } => 0,
            Wait::Registers { .. }
            | Wait::Pair { .. }
            | Wait::Poll { .. }
            | Wait::GridAhead
            | Wait::Nothing => self.clock(current),
        };
        let clock = &mut self.threads[t as usize];
        clock.now = clock.now.max(at);
    }

    /// What the thread waited for has come, or its poll has given up.
    pub fn ready(&mut self, t: u32) {
        self.threads[t as usize].since = None;
    }

    /// The thread goes on, at `at` at the earliest; gives when it began to wait, and when it went on.
    fn goes_on(&mut self, t: u32, at: u64) -> (u64, u64) {
        let clock = &mut self.threads[t as usize];
        let from = clock.since.take().unwrap_or(clock.now);
        clock.now = clock.now.max(at);
        (from, clock.now)
    }

    /// Whether the thread that runs is further than others, or than a copy that lands.
    pub fn ahead(&self, t: u32, ready: &[u32], copies: impl Iterator<Item = u64>) -> bool {
        let now = self.clock(t);
        let behind = |at: u64| at < now;
        ready.iter().any(|&r| behind(self.clock(r))) || copies.into_iter().any(behind)
    }

    fn phases(&mut self, bar: usize) -> &mut Phases {
        if bar >= self.phases.len() {
            self.phases.resize_with(bar + 1, Phases::default);
        }
        &mut self.phases[bar]
    }

    /// When a phase was complete; the one before the first always was.
    fn done(&self, bar: usize, phase: u32) -> u64 {
        let done = self.phases.get(bar).and_then(|p| p.done.get(phase as usize));
        done.copied().unwrap_or(0)
    }

    /// Something brings the phase nearer to its end: a copy that lands, or else the thread.
    fn contributes(&mut self, t: u32, bar: usize) -> u64 {
        let (at, by) = match self.landing {
            Some((Landing { at, copy }, issuer)) => (at, Cause::Copy { copy, issuer }),
            None => (self.clock(t), Cause::Thread(t)),
        };
        let last = &mut self.phases(bar).last;
        if last.is_none_or(|(latest, _)| at >= latest) {
            *last = Some((at, by));
        }
        at
    }

    /// Arrivals, or an expectation, in phase `phase`.
    pub fn arrives(
        &mut self,
        t: u32,
        loc: Option<Loc>,
        (bar, phase): (usize, u32),
        count: u32,
        bytes: Option<u32>,
    ) {
        let at = self.contributes(t, bar);
        self.note(t, at, at, loc, What::Arrive { barrier: bar as u32, phase, count, bytes });
    }

    /// Bytes complete.
    pub fn completes(&mut self, t: u32, bar: usize) {
        self.contributes(t, bar);
    }

    pub fn phase_done(&mut self, bar: usize, phase: u32) {
        let phases = self.phases(bar);
        let Some((at, by)) = phases.last.take() else { return };
        // A phase is not complete before the one before it.
        let at = at.max(phases.done.last().copied().unwrap_or(0));
        phases.done.push(at);
        let (Cause::Thread(t) | Cause::Copy { issuer: t, .. }) = by;
        self.note(t, at, at, None, What::Phase { barrier: bar as u32, phase, by });
    }

    /// A wait on an mbarrier is over.
    pub fn waited(&mut self, t: u32, loc: Option<Loc>, bar: usize, phase: u32) {
        let (from, until) = self.goes_on(t, self.done(bar, phase));
        self.note(t, from, until, loc, What::Wait { barrier: bar as u32, phase });
    }

    /// A thread comes to a named barrier; `last`: it completes it.
    pub fn comes(&mut self, t: u32, id: u32, last: bool) {
        let (cta, now) = (self.cta(t), self.clock(t));
        let at = &mut self.named[cta][id as usize];
        *at = now.max(*at);
        if last {
            self.met = std::mem::take(at);
        }
    }

    /// A wait at a named barrier is over; `last`: the thread completed it.
    pub fn synced(&mut self, t: u32, loc: Option<Loc>, id: u32, last: bool) {
        let (from, until) = self.goes_on(t, if last { self.met } else { 0 });
        self.note(t, from, until, loc, What::Sync { id });
    }

    /// A thread arrives at the cluster's barrier, or has exited.
    pub fn cluster_arrives(&mut self, t: u32) {
        self.cluster.0 = self.cluster.0.max(self.clock(t));
    }

    pub fn cluster_done(&mut self) {
        self.cluster.1 = self.cluster.0;
        self.met = self.cluster.1;
    }

    pub fn cluster_waited(&mut self, t: u32, loc: Option<Loc>) {
        let (from, until) = self.goes_on(t, self.cluster.1);
        self.note(t, from, until, loc, What::ClusterWait);
    }

    /// Threads meet, of whom all but `t` sleep.
    pub fn meets(&mut self, t: u32, members: impl Iterator<Item = u32>) {
        self.met = members.map(|m| self.clock(m)).max().unwrap_or(0);
        self.goes_on(t, self.met);
    }

    /// A wgmma of the warp group that has met.
    pub fn wgmma(&mut self, t: u32, loc: Loc, wg: usize, n: u32) {
        let (cta, issued) = (self.cta(t), self.met);
        let group = &mut self.groups[cta][wg];
        let len = u64::from(64 * 16 * n) / cycles::MULTIPLICATIONS;
        let started = self.tensor[cta].take(issued.max(group.last), len);
        group.last = started + len;
        let first = t - t % self.block % 128;
        self.note(first, issued, started + len, Some(loc), What::Wgmma { started, n });
    }

    pub fn wgmma_commit(&mut self, t: u32, wg: usize) {
        let cta = self.cta(t);
        let group = &mut self.groups[cta][wg];
        group.committed.push(group.last);
    }

    /// A wait for the first `retired` groups.
    pub fn wgmma_waited(&mut self, t: u32, loc: Option<Loc>, wg: usize, retired: u64, left: u32) {
        let ends = &self.groups[self.cta(t)][wg].committed;
        let at = (retired as usize).checked_sub(1).and_then(|i| ends.get(i)).copied().unwrap_or(0);
        let (from, until) = self.goes_on(t, at);
        self.note(t, from, until, loc, What::WgmmaWait { left });
    }

    /// A copy starts.
    pub fn starts(&mut self, t: u32, loc: Loc, transfer: Transfer) -> Landing {
        match transfer {
            Transfer::Load { cta, addr, bytes, bar } => {
                self.loads(t, loc, (cta, addr, bytes), bar as u32)
            }
            Transfer::Store { group, bytes } => self.stores(t, loc, bytes, group),
            Transfer::Queued => self.copies_async(t),
        }
    }

    /// A load starts, at its destination.
    fn loads(
        &mut self,
        t: u32,
        loc: Loc,
        (cta, addr, bytes): (usize, u32, u32),
        barrier: u32,
    ) -> Landing {
        let now = self.clock(t);
        let len = u64::from(bytes).div_ceil(cycles::BYTES);
        let started = self.inbound[cta].take(now, len);
        let at = started + cycles::LATENCY + len;
        let copy = self.copies;
        self.copies += 1;
        let what = What::Load { copy, started, cta: cta as u32, addr, bytes, barrier };
        self.note(t, now, at, Some(loc), what);
        Landing { at, copy }
    }

    /// A store starts, of bulk group `group`; gives when it has read.
    fn stores(&mut self, t: u32, loc: Loc, bytes: u32, group: u64) -> Landing {
        let (cta, now) = (self.cta(t), self.clock(t));
        let len = u64::from(bytes).div_ceil(cycles::BYTES);
        let started = self.outbound[cta].take(now, len);
        let read = started + len;
        let copy = self.copies;
        let landing = Landing { at: read, copy };
        let written = Self::written(landing).at;
        let bulk = &mut self.threads[t as usize].bulk;
        if bulk.len() <= group as usize {
            bulk.resize(group as usize + 1, (0, 0));
        }
        let (r, w) = &mut bulk[group as usize];
        (*r, *w) = (read.max(*r), written.max(*w));
        self.copies += 1;
        self.note(t, now, written, Some(loc), What::Store { copy, started, read, bytes });
        landing
    }

    /// When a store that has read its source is written.
    pub fn written(read: Landing) -> Landing {
        Landing { at: read.at + cycles::LATENCY, ..read }
    }

    /// A wait for the first `covered` bulk groups is over.
    pub fn bulk_waited(&mut self, t: u32, loc: Option<Loc>, covered: u64, left: u32, read: bool) {
        let groups = self.threads[t as usize].bulk.iter().take(covered as usize);
        let at = groups.map(|&(r, w)| if read { r } else { w }).max().unwrap_or(0);
        let (from, until) = self.goes_on(t, at);
        self.note(t, from, until, loc, What::StoreWait { left, read });
    }

    /// A `cp.async`, or the arrival behind it: they land in order.
    fn copies_async(&mut self, t: u32) -> Landing {
        let copy = self.copies;
        self.copies += 1;
        let clock = &mut self.threads[t as usize];
        let at = clock.cp.last().copied().unwrap_or(0).max(clock.now + cycles::LATENCY);
        clock.cp.push(at);
        Landing { at, copy }
    }

    /// A wait for the first `landed` of them is over.
    pub fn cp_waited(&mut self, t: u32, loc: Option<Loc>, landed: u64, left: u32) {
        let cp = &self.threads[t as usize].cp;
        let at = (landed as usize).checked_sub(1).and_then(|i| cp.get(i)).copied().unwrap_or(0);
        let (from, until) = self.goes_on(t, at);
        self.note(t, from, until, loc, What::CopyWait { left });
    }

    /// A copy lands, until `None` says that it has.
    pub fn lands(&mut self, landing: Option<(Landing, u32)>) {
        self.landing = landing;
    }

    pub fn fence(&mut self, t: u32, loc: Option<Loc>, name: &'static str) {
        let now = self.clock(t);
        self.note(t, now, now, loc, What::Fence { name });
    }
}
