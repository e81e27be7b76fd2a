//! Global memory: one shadow for all clusters of a launch.

use super::agents::Agent;
use super::clock::Knows;
use super::maps::{Gap, Maps, User, Write};
use super::release::{Chain, Place};
use super::shadow::{Access, Judge, Shadow};
use super::times::Lane;
use crate::finding::report::ThreadPlace;
use crate::finding::rule::Rule;
use crate::types::hash::ByMix;
use crate::types::loc::Loc;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of a page of the shadow.
const PAGE: u64 = 4096;
/// Readers of a chunk that are remembered: a table that every thread of the grid reads would keep
/// them all.
const READERS: usize = 64;

/// Who accessed what, of all clusters.
pub(crate) struct GlobalShadow {
    inner: Mutex<Inner>,
    flags: AtomicBool,
    /// The grids of the run: the number of the first cluster, and the kernel's name.
    grids: Vec<(u32, String)>,
}

/// What the lock guards.
#[derive(Default)]
pub(crate) struct Inner {
    /// By allocation, and by page.
    pages: HashMap<u64, HashMap<u64, Shadow, ByMix>, ByMix>,
    records: Vec<Record>,
    pub words: HashMap<Place, Chain, ByMix>,
    /// Releases at words.
    pub releases: u64,
    pub maps: Maps,
}

/// An access: what [`Access::agent`] is an index of. [`Access::site`] is its [`Record::mark`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub cluster: u32,
    pub place: ThreadPlace,
    pub agent: u32,
    pub kind: Agent,
    pub time: u32,
    pub what: &'static str,
    pub loc: Loc,
    pub strong: bool,
}

impl GlobalShadow {
    /// For these grids: the number of the first cluster, and the kernel's name.
    pub fn new(grids: Vec<(u32, String)>) -> Self {
        Self { inner: Mutex::default(), flags: AtomicBool::new(false), grids }
    }
    /// The grid of a cluster.
    pub fn grid_of(&self, cluster: u32) -> usize {
        self.grids.partition_point(|g| g.0 <= cluster) - 1
    }
    /// The first cluster of a grid, and the kernel's name.
    pub fn grid(&self, grid: usize) -> (u32, &str) {
        let (first, name) = &self.grids[grid];
        (*first, name)
    }
    /// Borrows all of it.
    pub fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Whether any word carries a release.
    pub fn flags(&self) -> bool {
        self.flags.load(Ordering::Acquire)
    }
    /// A word carries a release.
    pub fn flag(&self) {
        self.flags.store(true, Ordering::Release);
    }
}

/// Two accesses that nothing orders.
#[derive(Debug)]
pub(crate) struct GlobalClash {
    pub rule: Rule,
    pub at: u64,
    pub old: Record,
    pub old_write: bool,
    pub write: bool,
    /// What a use of a tensor map lacks to see the write.
    pub gap: Option<Gap>,
}

/// How an access is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    Read,
    Write,
    /// A read of a tensor map by a TMA instruction, through the tensormap proxy.
    Map,
    /// The same, of which no note is taken.
    MapLook,
}

impl Use {
    fn of_map(self) -> bool {
        matches!(self, Self::Map | Self::MapLook)
    }
}

/// Who accesses, how, and what it knows.
#[derive(Clone, Copy)]
struct By<'a> {
    who: &'a Knows,
    new: &'a Record,
    what: Use,
    /// Its first byte: the address of a tensor map.
    addr: u64,
}

struct Judging<'a> {
    by: By<'a>,
    records: &'a [Record],
    /// The clusters of the grid that accesses.
    grid: &'a Range<u32>,
    maps: &'a Maps,
}

impl Judging<'_> {
    fn knows(&self, lane: Lane, r: &Record) -> bool {
        let By { who, new, .. } = self.by;
        if r.cluster == new.cluster {
            return who.knows(lane, r.agent, r.time);
        }
        who.knows_of(r.cluster, lane, r.agent, r.time)
    }

    /// Where a write must be known. The asynchronous proxy needs a proxy fence after a write through the
    /// generic one, and after an asynchronous one of another CTA: its completion makes that visible to
    /// the generic proxy only.
    fn lane(&self, r: &Record, old_write: bool) -> Lane {
        let By { new, what, .. } = self.by;
        let crosses = old_write
            && !new.kind.generic()
            && !what.of_map()
            && (r.kind.generic() || !r.same_cta(new));
        if crosses { Lane::AsyncGlobal } else { Lane::Ordered }
    }

    fn follows(&self, old: Access, old_write: bool) -> bool {
        let r = &self.records[old.agent as usize];
        if self.by.new.strong && r.strong {
            return true;
        }
        if !self.knows(self.lane(r, old_write), r) {
            let over = |agent, time| self.knows(Lane::Ordered, &Record { agent, time, ..*r });
            return !old_write && self.maps.ended(old.agent, over);
        }
        !(old_write && self.by.what.of_map()) || self.gap(r).is_none()
    }

    /// What a use of a tensor map lacks to see a write that is ordered before it.
    fn gap(&self, r: &Record) -> Option<Gap> {
        let By { who, new, addr, .. } = self.by;
        let released = match r.kind {
            Agent::MapCopies { scope, .. } => Some(scope),
            _ => None,
        };
        let (cluster, cta) = r.cta();
        let write = Write { cluster, cta, agent: r.agent, time: r.time, released };
        let (cluster, cta) = new.cta();
        self.maps.gap(User { who, cluster, cta, map: addr }, &write)
    }

    fn rule(&self, old: Access, old_write: bool) -> Rule {
        let (r, by) = (&self.records[old.agent as usize], &self.by);
        if !self.grid.contains(&r.cluster) {
            Rule::Dependent
        } else if self.lane(r, old_write) == Lane::AsyncGlobal && self.knows(Lane::Ordered, r) {
            Rule::Proxy
        } else if by.what.of_map() && old_write && self.knows(Lane::Ordered, r) {
            Rule::MapUnseen
        } else if r.cluster == by.new.cluster && by.who.knows(Lane::Loose, r.agent, r.time) {
            Rule::Scope
        } else if by.what == Use::Write && old_write && !r.same_cta(by.new) {
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
    fn is_strong(&self) -> bool {
        self.by.new.strong
    }
    fn was_strong(&self, old: Access) -> bool {
        self.records[old.agent as usize].strong
    }
    fn hides(&self, old: Access) -> bool {
        let record = &self.records[old.agent as usize];
        record.strong && self.knows(self.lane(record, true), record)
    }
    fn replaces(&self, old: Access) -> bool {
        let new = self.by.new;
        let thread = matches!(new.kind, Agent::Thread(_));
        if !thread && old.site != new.mark() {
            // A chunk may have many readers: most are told apart without their records.
            return false;
        }
        let r = &self.records[old.agent as usize];
        if (r.cluster, r.agent) == (new.cluster, new.agent) {
            return r.time <= new.time;
        }
        // The end of a copy says nothing of what its issuer knew.
        thread && self.knows(Lane::Ordered, r)
    }
}

impl Inner {
    /// The number of an access.
    fn number(&mut self, record: &Record) -> u32 {
        if !self.records.last().is_some_and(|last| last.same(record)) {
            self.records.push(*record);
        }
        self.records.len() as u32 - 1
    }

    fn access(
        &mut self,
        base: u64,
        (addr, len): (u64, u64),
        id: u32,
        (by, grid): (By<'_>, &Range<u32>),
    ) -> Result<(), Box<GlobalClash>> {
        let Self { pages, records, maps, .. } = self;
        let (judge, op) = (Judging { by, records, grid, maps }, by.what);
        let pages = pages.entry(base).or_default();
        let new = Access { agent: id, time: 1, site: by.new.mark() };
        let (mut at, end) = (addr, addr + len);
        while at < end {
            let page = at / PAGE;
            let to = end.min((page + 1) * PAGE);
            let range = (at % PAGE) as u32..(to - page * PAGE) as u32;
            at = to;
            let fresh = || Shadow::with_readers(PAGE as u32, READERS);
            let shadow = pages.entry(page).or_insert_with(fresh);
            let result = match op {
                Use::Read | Use::Map => shadow.read(range, new, &judge),
                Use::Write => shadow.write(range, new, &judge),
                Use::MapLook => shadow.look(range, &judge),
            };
            result.map_err(|clash| {
                let rule = judge.rule(clash.old, clash.write);
                let at = page * PAGE + u64::from(clash.at);
                let old = judge.records[clash.old.agent as usize];
                let (old_write, write) = (clash.write, op == Use::Write);
                let gap = (rule == Rule::MapUnseen).then(|| judge.gap(&old)).flatten();
                Box::new(GlobalClash { rule, at, old, old_write, write, gap })
            })?;
        }
        Ok(())
    }
}

impl GlobalShadow {
    /// The clusters of a cluster's grid.
    fn clusters_beside(&self, cluster: u32) -> Range<u32> {
        let grid = self.grid_of(cluster);
        let end = self.grids.get(grid + 1).map_or(u32::MAX, |next| next.0);
        self.grids[grid].0..end
    }

    /// A thread accesses parts of an allocation, or issues work that will.
    pub fn access(
        &self,
        who: &Knows,
        new: &Record,
        what: Use,
        base: u64,
        runs: impl FnOnce(&mut dyn FnMut(u64, u64)),
    ) -> Result<(), Box<GlobalClash>> {
        let grid = self.clusters_beside(new.cluster);
        let mut inner = self.lock();
        let id = inner.number(new);
        let mut found = Ok(());
        runs(&mut |addr, len| {
            if found.is_ok() {
                let by = By { who, new, what, addr };
                found = inner.access(base, (addr, len), id, (by, &grid));
            }
        });
        found
    }

    /// A TMA instruction uses a tensor map, until its own agent's work or one of `ends` is over.
    pub fn use_map(
        &self,
        who: &Knows,
        new: &Record,
        base: u64,
        (map, bytes): (u64, u64),
        ends: &[(u32, u32)],
    ) -> Result<(), Box<GlobalClash>> {
        let grid = self.clusters_beside(new.cluster);
        let mut inner = self.lock();
        let id = inner.number(new);
        inner.maps.ends(id, ends);
        let by = By { who, new, what: Use::Map, addr: map };
        inner.access(base, (map, bytes), id, (by, &grid))
    }
}

impl Record {
    /// A number that accesses of one agent of a cluster have in common, and few others have.
    fn mark(&self) -> u32 {
        self.cluster.wrapping_mul(0x9e37_79b1) ^ self.agent
    }

    fn cta(&self) -> (u32, usize) {
        (self.cluster, self.place.cta as usize)
    }

    fn same_cta(&self, o: &Self) -> bool {
        (self.cluster, self.place.cta) == (o.cluster, o.place.cta)
    }

    fn same(&self, o: &Self) -> bool {
        (self.cluster, self.agent, self.time, self.strong) == (o.cluster, o.agent, o.time, o.strong)
            && self.place == o.place
            && std::ptr::eq(self.loc, o.loc)
    }
}
