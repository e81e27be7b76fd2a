//! The bulk groups of a thread.

use crate::types::loc::Loc;
use std::collections::VecDeque;

/// A bulk group: how many of its copies have still to read and to write.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Group {
    unread: u32,
    unwritten: u32,
    /// A `wait_group` of either kind has covered it.
    waited: bool,
    loc: Option<Loc>,
}

/// The bulk groups of a thread.
#[derive(Default)]
pub(crate) struct BulkGroups {
    /// Number of the oldest group kept.
    first: u64,
    committed: VecDeque<Group>,
    open: Group,
}

impl BulkGroups {
    /// A copy joins the open group; gives the group's number.
    pub fn add(&mut self, loc: Loc) -> u64 {
        self.open.unread += 1;
        self.open.unwritten += 1;
        self.open.loc = Some(loc);
        self.open()
    }

    /// Number of the open group.
    pub fn open(&self) -> u64 {
        self.first + self.committed.len() as u64
    }

    pub fn commit(&mut self) {
        self.committed.push_back(std::mem::take(&mut self.open));
    }

    fn group(&mut self, number: u64) -> &mut Group {
        let i = (number - self.first) as usize;
        if i < self.committed.len() { &mut self.committed[i] } else { &mut self.open }
    }

    /// The number behind those groups that a wait for all but `left` covers.
    pub fn covered(&self, left: u32) -> u64 {
        self.first + self.committed.len().saturating_sub(left as usize) as u64
    }

    /// A copy of the group has read its source.
    pub fn read(&mut self, number: u64) {
        self.group(number).unread -= 1;
    }

    /// A copy of the group has written.
    pub fn wrote(&mut self, number: u64) {
        self.group(number).unwritten -= 1;
    }

    /// Whether at most `left` groups are pending; if so, the others count as waited for.
    pub fn wait(&mut self, left: u32, read: bool) -> bool {
        let older = self.committed.len().saturating_sub(left as usize);
        let pending = |g: &Group| if read { g.unread > 0 } else { g.unwritten > 0 };
        if self.committed.iter().take(older).any(pending) {
            return false;
        }
        for g in self.committed.iter_mut().take(older) {
            g.waited = true;
        }
        while self.committed.front().is_some_and(|g| g.waited && g.unwritten == 0) {
            self.committed.pop_front();
            self.first += 1;
        }
        true
    }

    /// The protocol state: what the groups have still to do.
    pub fn protocol(&self, f: &mut impl FnMut(u64)) {
        for g in self.committed.iter().chain([&self.open]) {
            f(u64::from(g.unread) << 33 | u64::from(g.unwritten) << 1 | u64::from(g.waited));
        }
    }

    /// What a thread that returns leaves behind: what is wrong, and where the copy was issued.
    pub fn left_over(&self) -> Option<(&'static str, Loc)> {
        if let Some(loc) = self.open.loc {
            return Some(("a bulk copy that no commit_group follows", loc));
        }
        let g = self.committed.iter().find(|g| !g.waited && g.loc.is_some())?;
        Some(("a bulk group that no wait_group covers", g.loc?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::Location;

    /// PTX manual, *cp.async.bulk.wait_group*: waits until at most N of the most recent groups are
    /// pending; `.read`: only until their sources are read.
    #[test]
    fn waits_for_reading_and_for_writing() {
        let mut g = BulkGroups::default();
        let a = g.add(Location::caller());
        g.commit();
        let b = g.add(Location::caller());
        g.commit();
        assert_ne!(a, b);
        assert!(g.wait(2, false) && !g.wait(1, true) && !g.wait(0, true));
        g.read(a);
        assert!(g.wait(1, true) && !g.wait(1, false) && !g.wait(0, true));
        g.wrote(a);
        assert!(g.wait(1, false) && !g.wait(0, true));
        assert!(g.left_over().is_some());
        g.read(b);
        assert!(g.wait(0, true) && !g.wait(0, false));
        assert!(g.left_over().is_none(), "reading is what exit needs");
        g.wrote(b);
        assert!(g.wait(0, false));
        g.add(Location::caller());
        assert!(g.left_over().unwrap().0.contains("commit_group"));
    }
}
