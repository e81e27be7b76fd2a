//! What must be known of an older access for a newer one to follow it.

use super::agents::{Agent, Agents};
use super::clock::Knows;
use super::shadow::{Access, Judge};
use super::sites::Sites;
use super::times::Lane;
use crate::finding::rule::Rule;

/// Someone's knowledge: a thread's, or what all threads of a warp group have in common.
pub(crate) trait Knowledge {
    fn knows(&self, lane: Lane, agent: u32, time: u32) -> bool;
}

impl Knowledge for Knows {
    #[inline]
    fn knows(&self, lane: Lane, agent: u32, time: u32) -> bool {
        Knows::knows(self, lane, agent, time)
    }
}

/// How the newer access is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// By the thread itself, or by its `cp.async`.
    Generic,
    /// Read by an asynchronous operation.
    AsyncRead,
    /// Written by one.
    AsyncWrite,
}

/// Who makes the newer access, and what is known of the older one.
pub(crate) struct By<'a, K> {
    pub who: &'a K,
    pub way: Way,
    pub strong: bool,
    pub agents: &'a Agents,
    pub sites: &'a Sites,
}

impl<K: Knowledge> By<'_, K> {
    fn generic(&self, a: Access) -> bool {
        self.agents.get(a.agent).generic()
    }

    #[inline]
    fn knows(&self, lane: Lane, a: Access) -> bool {
        self.who.knows(lane, a.agent, a.time)
    }

    /// The lane in which the older access must be known.
    fn lane(&self, old: Access, write: bool) -> Lane {
        match self.way {
            Way::Generic => Lane::Ordered,
            _ if write && self.generic(old) => Lane::Async,
            Way::AsyncRead => Lane::Ordered,
            Way::AsyncWrite => Lane::Loose,
        }
    }

    /// The rule that an access breaks which follows another without knowing of it.
    pub fn rule(&self, old: Access, write: bool) -> Rule {
        if self.lane(old, write) == Lane::Async && self.knows(Lane::Ordered, old) {
            Rule::Proxy
        } else if self.knows(Lane::Loose, old) {
            Rule::Scope
        } else {
            // Work that may not be over, for all that is known: as if it were in flight.
            match self.agents.get(old.agent) {
                Agent::Barrier(_) | Agent::CpAsync(_) if write => Rule::CopyInFlight,
                Agent::Barrier(_) | Agent::BulkReads(_) => Rule::StoreReads,
                Agent::Warpgroup { .. } | Agent::Umma(_) => Rule::WgmmaReads,
                _ => Rule::SharedRace,
            }
        }
    }
}

impl<K: Knowledge> Judge for By<'_, K> {
    #[inline]
    fn after_write(&self, old: Access) -> bool {
        self.knows(self.lane(old, true), old) || (self.strong && self.sites.get(old.site).strong)
    }
    #[inline]
    fn after_read(&self, old: Access) -> bool {
        self.knows(self.lane(old, false), old) || (self.strong && self.sites.get(old.site).strong)
    }
    fn is_strong(&self) -> bool {
        self.strong
    }
    fn was_strong(&self, old: Access) -> bool {
        self.sites.get(old.site).strong
    }
    fn hides(&self, old: Access) -> bool {
        self.was_strong(old) && self.knows(Lane::Ordered, old)
    }
    #[inline]
    fn replaces(&self, old: Access) -> bool {
        self.way == Way::Generic && self.knows(Lane::Ordered, old)
    }
}
