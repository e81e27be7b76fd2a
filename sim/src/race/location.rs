//! Releases and acquires through words of memory: `st.release`, `red.release`, `ld.acquire`, and
//! fences with atomics.
//!
//! A word keeps what was released there. An atomic update continues the chain of those before it; a
//! store starts another.

use super::Race;
use super::clock::{self, Lane, Released, Told};
use super::foreign;
use super::sync::Scope;
use crate::cluster::Cluster;

/// What someone released at a word.
pub(crate) struct Release {
    cluster: u32,
    cta: usize,
    scope: Scope,
    what: Released,
}

/// Fences of a thread, which make releases and acquires of the atomics after and before them.
#[derive(Default)]
pub(crate) struct Fences {
    /// What the last fence released.
    pub released: Option<(Scope, Released)>,
    /// What was seen by atomics, and is acquired by the next fence.
    seen: Vec<(u32, usize, Scope, Released)>,
}

/// An operation on a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Word {
    /// A weak store.
    Store,
    /// `st.release`
    StoreRelease(Scope),
    /// A relaxed atomic update.
    Update,
    /// `red.release`
    UpdateRelease(Scope),
    /// `ld.acquire`
    LoadAcquire(Scope),
}

/// Of an address in global memory, or of one in a CTA's shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Place {
    Global(u64),
    Shared { cluster: u32, cta: usize, addr: u32 },
}

impl Race {
    fn acquires(
        &mut self,
        t: u32,
        (cluster, cta): (u32, usize),
        scope: Scope,
        from: &(u32, usize, Scope, Released),
    ) {
        let (of, of_cta, of_scope, what) = from;
        let both = scope.min(*of_scope);
        let thread = &mut self.threads[t as usize];
        if *of == cluster {
            if *of_cta == cta || both >= Scope::Cluster {
                Told::new(what).tell(thread);
            } else {
                let i = Lane::Loose as usize;
                thread.base[i] = clock::join(&thread.base[i], &what.lanes[i]);
            }
        } else if both >= Scope::Gpu {
            let lane = |lane: Lane| what.lanes[lane as usize].clone();
            foreign::join(&mut thread.foreign, &what.foreign);
            let times = [lane(Lane::Ordered), lane(Lane::AsyncGlobal)];
            foreign::learn(&mut thread.foreign, *of, &times);
            // What comes back of its own cluster.
            let own = thread.foreign.as_ref().and_then(|f| f.get(&cluster)).cloned();
            if let Some([ordered, visible]) = own {
                for (lane, times) in [
                    (Lane::Ordered, &ordered),
                    (Lane::Loose, &ordered),
                    (Lane::AsyncGlobal, &visible),
                ] {
                    let i = lane as usize;
                    thread.base[i] = clock::join(&thread.base[i], times);
                }
            }
        }
    }

    /// `fence.acq_rel` or `fence.sc`.
    fn orders(&mut self, t: u32, at: (u32, usize), scope: Scope) {
        for seen in std::mem::take(&mut self.fences[t as usize].seen) {
            self.acquires(t, at, scope, &seen);
        }
        self.fences[t as usize].released = Some((scope, self.snapshot(t)));
    }

    fn word(&mut self, t: u32, at: (u32, usize), place: Place, op: Word) {
        let global = std::sync::Arc::clone(&self.global);
        if op == Word::Store && !global.flags() {
            return;
        }
        let mut inner = global.lock();
        if matches!(op, Word::Store | Word::StoreRelease(_)) {
            inner.words.remove(&place);
        }
        let releases = match op {
            Word::StoreRelease(scope) | Word::UpdateRelease(scope) => {
                Some((scope, self.snapshot(t)))
            }
            Word::Update => {
                let fences = &mut self.fences[t as usize];
                for r in inner.words.get(&place).into_iter().flatten() {
                    let from = (r.cluster, r.cta, r.scope);
                    match fences.seen.iter_mut().find(|s| (s.0, s.1, s.2) == from) {
                        Some(s) => s.3.merge(&r.what),
                        None => fences.seen.push((r.cluster, r.cta, r.scope, r.what.clone())),
                    }
                }
                fences.released.clone()
            }
            Word::LoadAcquire(scope) => {
                for r in inner.words.get(&place).into_iter().flatten() {
                    let r = (r.cluster, r.cta, r.scope, r.what.clone());
                    self.acquires(t, at, scope, &r);
                }
                None
            }
            Word::Store => None,
        };
        let Some((scope, what)) = releases else { return };
        global.flag();
        let (cluster, cta) = at;
        let list = inner.words.entry(place).or_default();
        let same = |r: &&mut Release| (r.cluster, r.cta, r.scope) == (cluster, cta, scope);
        match list.iter_mut().find(same) {
            Some(r) => r.what.merge(&what),
            None => list.push(Release { cluster, cta, scope, what }),
        }
    }
}

impl Released {
    pub fn merge(&mut self, other: &Self) {
        for (a, b) in self.lanes.iter_mut().zip(&other.lanes) {
            *a = clock::join(a, b);
        }
        foreign::join(&mut self.foreign, &other.foreign);
    }
}

impl Cluster {
    /// A fence of memory order.
    pub fn race_fence(&mut self, t: u32, scope: Scope) {
        let at = (self.index, self.threads[t as usize].cta);
        self.edge(|race| race.orders(t, at, scope));
    }

    /// An operation on a word that may carry a release.
    pub fn race_word(&mut self, t: u32, place: Place, op: Word) {
        let at = (self.index, self.threads[t as usize].cta);
        self.edge(|race| race.word(t, at, place, op));
    }
}
