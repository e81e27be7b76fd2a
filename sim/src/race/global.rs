//! Global memory: one shadow for all clusters of a launch.

use super::clock::{Knows, Lane};
use super::explain::verbs;
use super::location::{Place, Release, Word};
use super::shadow::{Access, Clash, Judge, Shadow};
use super::{Agent, Race, foreign};
use crate::Rule;
use crate::bulk::Sink;
use crate::cluster::Cluster;
use crate::diagnose;
use crate::fault::Fault;
use crate::report::ThreadPlace;
use crate::tensor_map::TensorMapDesc;
use crate::thread::Loc;
use crate::tma::{self, Combine};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of a page of the shadow.
const PAGE: u64 = 4096;
/// Readers of a chunk that are remembered: a table that every thread of the grid reads would keep
/// them all.
const READERS: usize = 64;

/// Who accessed what, of all clusters.
#[derive(Default)]
pub(crate) struct GlobalShadow {
    inner: Mutex<Inner>,
    flags: AtomicBool,
}

#[derive(Default)]
pub(crate) struct Inner {
    /// By allocation, and by page.
    pages: HashMap<u64, HashMap<u64, Shadow>>,
    records: Vec<Record>,
    pub words: HashMap<Place, Vec<Release>>,
}

/// An access: what [`Access::agent`] is an index of.
#[derive(Clone, Copy)]
struct Record {
    cluster: u32,
    place: ThreadPlace,
    agent: u32,
    kind: Agent,
    time: u32,
    what: &'static str,
    loc: Loc,
    strong: bool,
}

impl GlobalShadow {
    pub fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Whether any word carries a release.
    pub fn flags(&self) -> bool {
        self.flags.load(Ordering::Acquire)
    }
    pub fn flag(&self) {
        self.flags.store(true, Ordering::Release);
    }
}

/// How an access is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Use {
    Read,
    Write,
}

/// Who accesses, how, and what it knows.
#[derive(Clone, Copy)]
struct By<'a> {
    who: &'a Knows,
    cluster: u32,
    cta: u32,
    agent: u32,
    kind: Agent,
    time: u32,
    strong: bool,
    what: Use,
}

/// Whether an agent works through the generic proxy.
fn generic(kind: Agent) -> bool {
    matches!(kind, Agent::Thread(_) | Agent::CpAsync(_))
}

struct Judging<'a> {
    by: By<'a>,
    records: &'a [Record],
}

impl Judging<'_> {
    fn knows(&self, lane: Lane, r: &Record) -> bool {
        let By { who, cluster, .. } = self.by;
        if r.cluster == cluster {
            return who.knows(lane, r.agent, r.time);
        }
        foreign::knows(who, lane, r.cluster, r.agent, r.time)
    }

    fn lane(&self, r: &Record, old_write: bool) -> Lane {
        let crosses = !generic(self.by.kind) && old_write && generic(r.kind);
        if crosses { Lane::AsyncGlobal } else { Lane::Ordered }
    }

    fn follows(&self, old: Access, old_write: bool) -> bool {
        let r = &self.records[old.agent as usize];
        (self.by.strong && r.strong) || self.knows(self.lane(r, old_write), r)
    }

    fn rule(&self, old: Access, old_write: bool) -> Rule {
        let (r, by) = (&self.records[old.agent as usize], &self.by);
        if self.lane(r, old_write) == Lane::AsyncGlobal && self.knows(Lane::Ordered, r) {
            Rule::Proxy
        } else if r.cluster == by.cluster && by.who.knows(Lane::Loose, r.agent, r.time) {
            Rule::Scope
        } else if by.what == Use::Write
            && old_write
            && (r.cluster, r.place.cta) != (by.cluster, by.cta)
        {
            Rule::TwoWriters
        } else {
            Rule::GlobalRace
        }
    }
}

impl Judge for Judging<'_> {
    fn after_write(&self, old: Access) -> bool {
        self.follows(old, true)
    }
    fn after_read(&self, old: Access) -> bool {
        self.follows(old, false)
    }
    fn replaces(&self, old: Access) -> bool {
        let (r, by) = (&self.records[old.agent as usize], &self.by);
        if (r.cluster, r.agent) == (by.cluster, by.agent) {
            return r.time <= by.time;
        }
        // The end of a copy says nothing of what its issuer knew.
        matches!(by.kind, Agent::Thread(_)) && self.knows(Lane::Ordered, r)
    }
}

/// One operation on global memory.
#[derive(Clone, Copy)]
struct Operation {
    t: u32,
    kind: Agent,
    /// The agent's time; none for the thread's own.
    time: Option<u64>,
    strong: bool,
    what: Use,
}

impl Inner {
    fn access(
        &mut self,
        base: u64,
        (addr, len): (u64, u64),
        id: u32,
        by: By<'_>,
    ) -> Result<(), Box<(u64, Clash, Record)>> {
        let Self { pages, records, .. } = self;
        let (judge, op) = (Judging { by, records }, by.what);
        let pages = pages.entry(base).or_default();
        let new = Access { agent: id, time: 1, site: 0 };
        let (mut at, end) = (addr, addr + len);
        while at < end {
            let page = at / PAGE;
            let to = end.min((page + 1) * PAGE);
            let range = (at % PAGE) as u32..(to - page * PAGE) as u32;
            at = to;
            let fresh = || Shadow::with_readers(PAGE as u32, READERS);
            let shadow = pages.entry(page).or_insert_with(fresh);
            let result = match op {
                Use::Read => shadow.read(range, new, &judge),
                Use::Write => shadow.write(range, new, &judge),
            };
            result.map_err(|clash| {
                let rule = judge.rule(clash.old, clash.write);
                let at = page * PAGE + u64::from(clash.at);
                Box::new((at, Clash { rule, ..clash }, judge.records[clash.old.agent as usize]))
            })?;
        }
        Ok(())
    }
}

impl Cluster {
    fn race_global(
        &mut self,
        op: Operation,
        addr: u64,
        runs: impl FnOnce(&mut dyn FnMut(u64, u64)),
    ) -> Result<(), Fault> {
        // What lies nowhere is found when it is accessed.
        let (Some(race), Ok(allocation)) = (&mut self.race, self.memory.find(addr, 1)) else {
            return Ok(());
        };
        let (agent, t) = (race.agent(op.kind), op.t as usize);
        let thread = &self.threads[t];
        let cta = thread.cta as u32;
        let loc = thread.loc.expect("the instruction has begun");
        let time = op.time.map_or(race.threads[t].time, |time| time as u32);
        let Race { threads, global, .. } = &mut **race;
        let mut inner = global.lock();
        let record = Record {
            cluster: self.index,
            place: ThreadPlace {
                cta,
                warp: thread.index / 32,
                lane: thread.lane(),
                role: thread.role,
            },
            agent,
            kind: op.kind,
            time,
            what: thread.op,
            loc,
            strong: op.strong,
        };
        let id = match inner.records.last() {
            Some(last) if last.same(&record) => inner.records.len() as u32 - 1,
            _ => {
                inner.records.push(record);
                inner.records.len() as u32 - 1
            }
        };
        let by = By {
            who: &threads[t],
            cluster: self.index,
            cta,
            agent,
            kind: op.kind,
            time,
            strong: op.strong,
            what: op.what,
        };
        let mut found = Ok(());
        runs(&mut |addr, len| {
            if found.is_ok() {
                found = inner.access(allocation.base(), (addr, len), id, by);
            }
        });
        drop(inner);
        found.map_err(|found| self.explain_global(&op, found.0, found.1, &found.2))
    }

    fn explain_global(&self, op: &Operation, at: u64, clash: Clash, old: &Record) -> Fault {
        let who = diagnose::place(self, op.t);
        let mut other = old.place.to_string();
        if old.cluster != self.index {
            other = format!("cluster {} {other}", old.cluster);
        }
        let name = self.threads[op.t as usize].op;
        let (does, did) = verbs(op.what == Use::Write, clash.write);
        let why = match clash.rule {
            Rule::Proxy => "no fence.proxy.async of global memory lies between".to_owned(),
            Rule::Scope => {
                "only operations of .cta scope order them, and the two are of different \
                            CTAs"
                    .to_owned()
            }
            _ if old.cluster != self.index => format!(
                "nothing that {who} acquired says that it is over: a release at .gpu scope by the \
                 one, and an acquire of it by the other"
            ),
            _ => self.missing_edge(op.t, old.kind, old.time),
        };
        let message = format!(
            "global address {at:#x}: {who} {does} ({name}) what {other} {did} ({}); {why}",
            old.what
        );
        Fault::new(clash.rule, message).against(format!("{} by {other}", old.what), old.loc)
    }

    fn race_run(&mut self, op: Operation, addr: u64, len: u64) -> Result<(), Fault> {
        self.race_global(op, addr, |f| f(addr, len))
    }

    /// An ordinary or an acquiring load.
    pub fn race_gload(
        &mut self,
        t: u32,
        addr: u64,
        len: u64,
        word: Option<Word>,
    ) -> Result<(), Fault> {
        if self.race.is_none() {
            return Ok(());
        }
        if let Some(word) = word {
            self.race_word(t, Place::Global(addr), word);
        }
        let (kind, strong) = (Agent::Thread(t), word.is_some());
        let op = Operation { t, kind, time: None, strong, what: Use::Read };
        self.race_run(op, addr, len)
    }

    /// A store or an atomic update.
    pub fn race_gstore(&mut self, t: u32, addr: u64, len: u64, word: Word) -> Result<(), Fault> {
        if self.race.is_none() {
            return Ok(());
        }
        let (kind, strong) = (Agent::Thread(t), word != Word::Store);
        let op = Operation { t, kind, time: None, strong, what: Use::Write };
        self.race_run(op, addr, len)?;
        self.race_word(t, Place::Global(addr), word);
        Ok(())
    }

    /// The thread's `n`th `cp.async` reads its source.
    pub fn race_gread(&mut self, t: u32, addr: u64, len: u64, n: u64) -> Result<(), Fault> {
        let kind = Agent::CpAsync(t);
        let op = Operation { t, kind, time: Some(n), strong: false, what: Use::Read };
        self.race_run(op, addr, len)
    }

    /// A load by TMA, to a barrier whose phase in progress will count its bytes.
    fn loads(&self, t: u32, bar: usize) -> Operation {
        let time = Some(u64::from(self.bars[bar].state.phase.wrapping_add(1)));
        Operation { t, kind: Agent::Barrier(bar), time, strong: false, what: Use::Read }
    }

    /// A plain bulk load reads its source.
    pub fn race_grun(&mut self, t: u32, addr: u64, len: u64, bar: usize) -> Result<(), Fault> {
        self.race_run(self.loads(t, bar), addr, len)
    }

    /// A TMA load reads its box.
    pub fn race_gbox(
        &mut self,
        t: u32,
        map: &TensorMapDesc,
        coords: [i32; 5],
        bar: usize,
    ) -> Result<(), Fault> {
        self.race_global(self.loads(t, bar), map.addr, |f| {
            tma::spans(map, coords, false, f);
        })
    }

    /// A bulk store of the thread's group of this number, from 1, writes.
    pub fn race_sink(&mut self, t: u32, sink: &Sink, bytes: u32, group: u64) -> Result<(), Fault> {
        let (Sink::Tensor { combine, .. } | Sink::Run { combine, .. }) = sink;
        let strong = *combine != Combine::Store;
        let kind = Agent::BulkWrites(t);
        let op = Operation { t, kind, time: Some(group), strong, what: Use::Write };
        match sink {
            Sink::Run { dst, .. } => self.race_run(op, *dst, u64::from(bytes)),
            Sink::Tensor { map, coords, .. } => self.race_global(op, map.addr, |f| {
                tma::spans(map, *coords, !strong, f);
            }),
        }
    }
}

impl Record {
    fn same(&self, o: &Self) -> bool {
        (self.cluster, self.agent, self.time, self.strong) == (o.cluster, o.agent, o.time, o.strong)
            && self.place == o.place
            && std::ptr::eq(self.loc, o.loc)
    }
}
