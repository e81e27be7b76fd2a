//! What is released at a word of memory.

use super::clock::Released;
use crate::types::scope::Scope;

/// Who released, at what scope, and what.
#[derive(Clone)]
pub(crate) struct Release {
    pub from: From,
    pub what: Released,
}

/// What was released at a word.
#[derive(Default)]
pub(crate) struct Chain {
    pub releases: Vec<Release>,
    /// Another number after each change, of all words.
    pub version: u64,
}

/// A CTA of a cluster, and the scope of its release.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct From {
    pub cluster: u32,
    pub cta: usize,
    pub scope: Scope,
}

/// Adds a release to those of the same CTA and scope.
pub(crate) fn add(list: &mut Vec<Release>, from: From, what: &Released) {
    match list.iter_mut().find(|r| r.from == from) {
        Some(r) => r.what.merge(what),
        None => list.push(Release { from, what: what.clone() }),
    }
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
    /// `atom.acq_rel`
    UpdateAcqRel(Scope),
    /// `ld.acquire`
    LoadAcquire(Scope),
}

/// Of an address in global memory, or of one in a CTA's shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Place {
    Global(u64),
    Shared { cluster: u32, cta: usize, addr: u32 },
}
