//! Releases and acquires through words of memory: `st.release`, `red.release`, `ld.acquire`, and
//! fences with atomics.
//!
//! A word keeps what was released there. An atomic update continues the chain of those before it; a
//! store starts another.

use super::clock::{Knows, Released, Told};
use super::foreign;
use super::global::GlobalShadow;
use super::release::{self, From, Place, Release, Word};
use super::times::{self, Lane};
use crate::types::scope::Scope;

/// Fences of a thread, which make releases and acquires of the atomics after and before them.
#[derive(Default)]
pub(crate) struct Fences {
    /// What the last fence released.
    pub released: Option<(Scope, Released)>,
    /// What was seen by atomics, and is acquired by the next fence.
    seen: Vec<Release>,
    /// The word that was acquired last, with its version: to acquire that again tells nothing new.
    acquired: Option<(Place, Scope, u64)>,
}

/// A thread of a CTA acquires what was released.
fn acquire(thread: &mut Knows, (cluster, cta): (u32, usize), scope: Scope, release: &Release) {
    let Release { from, what } = release;
    let both = scope.min(from.scope);
    if from.cluster == cluster {
        if from.cta == cta || both >= Scope::Cluster {
            Told::new(what).tell(thread);
        } else {
            for i in [Lane::Loose as usize, Lane::Course as usize] {
                thread.base[i] = times::join(&thread.base[i], &what.lanes[i]);
            }
        }
    } else if both >= Scope::Gpu {
        let lane = |lane: Lane| what.lanes[lane as usize].clone();
        foreign::join(&mut thread.foreign, &what.foreign);
        let of = [lane(Lane::Ordered), lane(Lane::AsyncGlobal)];
        foreign::learn(&mut thread.foreign, from.cluster, &of);
        // What comes back of its own cluster.
        if let Some([ordered, visible]) = foreign::of(&thread.foreign, cluster) {
            for (lane, of) in [
                (Lane::Ordered, &ordered),
                (Lane::Loose, &ordered),
                (Lane::Course, &ordered),
                (Lane::AsyncGlobal, &visible),
            ] {
                let i = lane as usize;
                thread.base[i] = times::join(&thread.base[i], of);
            }
        }
    }
}

impl Fences {
    /// `fence.acq_rel` or `fence.sc` by the thread, of this cluster and CTA.
    pub fn fence(&mut self, thread: &mut Knows, at: (u32, usize), scope: Scope) {
        for seen in std::mem::take(&mut self.seen) {
            acquire(thread, at, scope, &seen);
        }
        self.released = Some((scope, thread.release()));
    }

    /// `fence.proxy.tensormap::generic.release`, and that of `cp_fenceproxy`: an atomic after it, with an
    /// acquire fence of the same proxy after the atomic that sees it, orders as memory fences do. What a
    /// memory fence of a wider scope released stays.
    pub fn proxy_release(&mut self, thread: &mut Knows, scope: Scope) {
        if self.released.as_ref().is_none_or(|(wide, _)| *wide <= scope) {
            self.released = Some((scope, thread.release()));
        }
    }

    /// `fence.proxy.tensormap::generic.acquire`: the other half.
    pub fn proxy_acquire(&mut self, thread: &mut Knows, at: (u32, usize), scope: Scope) {
        for seen in &self.seen {
            acquire(thread, at, scope, seen);
        }
    }

    /// An operation of the thread on a word that may carry a release.
    pub fn word(
        &mut self,
        thread: &mut Knows,
        global: &GlobalShadow,
        at: (u32, usize),
        place: Place,
        op: Word,
    ) {
        if op == Word::Store && !global.flags() {
            return;
        }
        let mut inner = global.lock();
        if matches!(op, Word::Store | Word::StoreRelease(_)) {
            inner.words.remove(&place);
        }
        let chain = inner.words.get(&place);
        let there = chain.into_iter().flat_map(|chain| &chain.releases);
        let releases = match op {
            Word::StoreRelease(scope) | Word::UpdateRelease(scope) => {
                Some((scope, thread.release()))
            }
            Word::UpdateAcqRel(scope) => {
                for r in there {
                    acquire(thread, at, scope, r);
                }
                Some((scope, thread.release()))
            }
            Word::Update => {
                for r in there {
                    release::add(&mut self.seen, r.from, &r.what);
                }
                self.released.clone()
            }
            Word::LoadAcquire(scope) => {
                let last = chain.map(|chain| (place, scope, chain.version));
                if self.acquired != last {
                    for r in there {
                        acquire(thread, at, scope, r);
                    }
                    self.acquired = last;
                }
                None
            }
            Word::Store => None,
        };
        let Some((scope, what)) = releases else { return };
        global.flag();
        let (cluster, cta) = at;
        inner.releases += 1;
        let version = inner.releases;
        let chain = inner.words.entry(place).or_default();
        chain.version = version;
        release::add(&mut chain.releases, From { cluster, cta, scope }, &what);
    }
}
