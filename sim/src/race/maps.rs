//! Changes of tensor maps, and what the tensormap proxy sees of them.
//!
//! A map in global memory is changed through the generic proxy: by stores, `tensormap.replace` and
//! `tensormap.cp_fenceproxy`. A TMA instruction reads it through the tensormap proxy. It sees the change
//! if three things lie between the two, each ordered before the next: a release fence after the change
//! (`fence.proxy.tensormap::generic.release`, or `cp_fenceproxy` itself), an acquire fence of the map's
//! address (`.acquire`) in the CTA that issues, and the issue. The fence has to be that CTA's own: it
//! empties the SM's cache of tensor maps.
//!
//! These fences are rare. So they are kept as events with what their threads knew, and the clocks
//! ([`super::times`]) have no lane for them.

use super::clock::Knows;
use super::times::Lane;
use crate::types::scope::Scope;
use std::collections::{HashMap, VecDeque};

/// Release fences of a thread that are remembered.
const RELEASES: usize = 1024;
/// Acquire fences of a map by a thread that are remembered.
const ACQUIRES: usize = 8;

/// A CTA: its cluster, and its rank there.
type Cta = (u32, usize);

/// A release or an acquire fence of the tensormap proxy: who executed it, when, and knowing what.
struct Fence {
    cluster: u32,
    cta: usize,
    scope: Scope,
    by: Knows,
}

/// A write to a tensor map.
#[derive(Clone, Copy)]
pub(crate) struct Write {
    pub cluster: u32,
    pub cta: usize,
    pub agent: u32,
    pub time: u32,
    /// The scope of the `cp_fenceproxy` that made it, which is its own release.
    pub released: Option<Scope>,
}

/// The thread that issues a TMA instruction, and the map that it uses.
#[derive(Clone, Copy)]
pub(crate) struct User<'a> {
    pub who: &'a Knows,
    pub cluster: u32,
    pub cta: usize,
    pub map: u64,
}

impl User<'_> {
    fn key(&self) -> (u64, Cta) {
        (self.map, (self.cluster, self.cta))
    }
}

/// What a TMA instruction lacks to see a write to its map that is ordered before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Gap {
    /// No release fence after the write.
    NoRelease,
    /// No acquire fence of the map before the use; `elsewhere`: there is one in another CTA, or one that
    /// is not ordered before the use.
    NoAcquire { elsewhere: bool },
    /// The acquire fence came before its thread had synchronised with the release.
    EarlyAcquire,
    /// The scope of a fence does not reach the other CTA.
    Scope,
}

/// Whether someone of a cluster knows in order what an agent of a cluster did.
fn knows(who: &Knows, own: u32, (of, agent, time): (u32, u32, u32)) -> bool {
    if own == of {
        return who.knows(Lane::Ordered, agent, time);
    }
    who.knows_of(of, Lane::Ordered, agent, time)
}

/// Whether operations of a scope reach from one CTA to another.
fn reaches(scope: Scope, a: Cta, b: Cta) -> bool {
    let needed = match () {
        () if a == b => Scope::Cta,
        () if a.0 == b.0 => Scope::Cluster,
        () => Scope::Gpu,
    };
    scope >= needed
}

impl Fence {
    fn place(&self) -> Cta {
        (self.cluster, self.cta)
    }

    fn knows(&self, what: (u32, u32, u32)) -> bool {
        knows(&self.by, self.cluster, what)
    }

    /// What others must know to be ordered after it.
    fn event(&self) -> (u32, u32, u32) {
        (self.cluster, self.by.id, self.by.time)
    }
}

impl Write {
    fn event(&self) -> (u32, u32, u32) {
        (self.cluster, self.agent, self.time)
    }
}

/// The fences of the tensormap proxy in a launch, and the ways in which uses of maps end.
#[derive(Default)]
pub(crate) struct Maps {
    /// By cluster and thread, the newest last.
    releases: HashMap<(u32, u32), VecDeque<Fence>>,
    /// By map and CTA, the newest last.
    acquires: HashMap<(u64, Cta), VecDeque<Fence>>,
    /// By the number of an access that used a map: work whose end is the end of the use as well.
    ends: HashMap<u32, Vec<(u32, u32)>>,
}

impl Maps {
    /// `fence.proxy.tensormap::generic.release`
    pub fn release(&mut self, (cluster, cta): Cta, scope: Scope, by: &Knows) {
        let list = self.releases.entry((cluster, by.id)).or_default();
        if list.len() == RELEASES {
            list.pop_front();
        }
        list.push_back(Fence { cluster, cta, scope, by: by.clone() });
    }

    /// `fence.proxy.tensormap::generic.acquire` of a map.
    pub fn acquire(&mut self, map: u64, cta: Cta, scope: Scope, by: &Knows) {
        let list = self.acquires.entry((map, cta)).or_default();
        // A thread's later fence does for all who are ordered after it.
        let mut older = (0..list.len()).filter(|&i| list[i].by.id == by.id);
        if let Some(oldest) = older.next()
            && older.count() + 1 == ACQUIRES
        {
            list.remove(oldest);
        }
        list.push_back(Fence { cluster: cta.0, cta: cta.1, scope, by: by.clone() });
    }

    /// An access uses a map until any of these is known to be over, apart from its own agent.
    pub fn ends(&mut self, access: u32, with: &[(u32, u32)]) {
        if !with.is_empty() {
            self.ends.entry(access).or_default().extend(with);
        }
    }

    /// Whether someone of the access's cluster knows that its use of a map is over.
    pub fn ended(&self, access: u32, knows: impl Fn(u32, u32) -> bool) -> bool {
        self.ends.get(&access).is_some_and(|ends| ends.iter().any(|&(a, t)| knows(a, t)))
    }

    /// The acquire fences of a map in the user's CTA that are ordered before the use, the newest first.
    fn acquired<'a>(&'a self, user: User<'a>) -> impl Iterator<Item = &'a Fence> {
        let known = move |a: &&Fence| knows(user.who, user.cluster, a.event());
        self.acquires.get(&user.key()).into_iter().flatten().rev().filter(known)
    }

    /// Whether an acquire fence in the user's CTA is ordered before its use of a map.
    pub fn has_acquired(&self, user: User<'_>) -> bool {
        self.acquired(user).next().is_some()
    }

    /// What a TMA instruction lacks to see a write that is ordered before it.
    pub fn gap(&self, user: User<'_>, write: &Write) -> Option<Gap> {
        let key = user.key();
        let own = || self.acquired(user);
        if own().any(|a| self.sees(a, write, true)) {
            return None;
        }
        Some(if own().any(|a| self.sees(a, write, false)) {
            Gap::Scope
        } else if write.released.is_none() && self.after(write).next().is_none() {
            Gap::NoRelease
        } else if own().next().is_some() {
            Gap::EarlyAcquire
        } else {
            Gap::NoAcquire { elsewhere: self.acquires.keys().any(|other| other.0 == key.0) }
        })
    }

    /// The release fences after a write.
    fn after<'a>(&'a self, write: &'a Write) -> impl Iterator<Item = &'a Fence> {
        self.releases.values().flat_map(|l| l.iter().rev()).filter(|r| r.knows(write.event()))
    }

    /// Whether an acquire fence has acquired a release of a write; with `scoped`, at a scope that
    /// reaches from the one to the other.
    fn sees(&self, acquire: &Fence, write: &Write, scoped: bool) -> bool {
        let from = |place: Cta, scope: Scope| {
            !scoped || reaches(scope.min(acquire.scope), place, acquire.place())
        };
        if let Some(scope) = write.released
            && acquire.knows(write.event())
            && from((write.cluster, write.cta), scope)
        {
            return true;
        }
        self.after(write).any(|r| acquire.knows(r.event()) && from(r.place(), r.scope))
    }
}
