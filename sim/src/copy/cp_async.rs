//! `cp.async`: 16 bytes at a time, in the generic proxy, in groups of their own.

use crate::types::loc::Loc;
use std::collections::VecDeque;

/// A thread's copies, oldest first. They land in order.
#[derive(Default)]
pub(crate) struct CpAsync {
    queue: VecDeque<Item>,
    issued: u64,
    landed: u64,
    waited: u64,
    /// How many copies had been issued at the end of each group that may be pending.
    groups: VecDeque<u64>,
}

/// What a thread has issued.
pub(crate) enum Item {
    Copy {
        cta: usize,
        dst: u32,
        src: u64,
        /// Bytes that are read; the others of the 16 become zero.
        read: usize,
        loc: Loc,
    },
    /// `cp.async.mbarrier.arrive.noinc`: arrives when all copies before it have landed.
    Arrive { bar: usize },
}

impl Item {
    /// Where it was issued, if it is a copy.
    fn copy(&self) -> Option<Loc> {
        match self {
            Self::Copy { loc, .. } => Some(*loc),
            Self::Arrive { .. } => None,
        }
    }
}

impl CpAsync {
    /// The number of the copy that is issued next, from 1.
    pub fn next(&self) -> u64 {
        self.issued + 1
    }

    /// A copy, or an arrival behind the copies before it.
    pub fn issue(&mut self, item: Item) {
        self.queue.push_back(item);
        self.issued += 1;
    }

    /// `cp.async.commit_group`.
    pub fn commit(&mut self) {
        self.groups.push_back(self.issued);
    }

    /// `cp.async.wait_group`: whether at most `left` groups are pending. Tells `landed` how many
    /// copies have landed with each group that the wait covers.
    pub fn wait(&mut self, left: u32, mut landed: impl FnMut(u64)) -> bool {
        while self.groups.len() > left as usize {
            if self.groups[0] > self.landed {
                return false;
            }
            self.waited = self.groups.pop_front().unwrap_or(self.waited);
            landed(self.waited);
        }
        true
    }

    /// The protocol state: what is queued, and where its groups end.
    pub fn protocol(&self, f: &mut impl FnMut(u64)) {
        for item in &self.queue {
            f(match item {
                Item::Copy { dst, .. } => u64::from(*dst),
                Item::Arrive { bar } => 1 << 32 | *bar as u64,
            });
        }
        self.groups.iter().for_each(|end| f(self.issued - end));
    }

    /// Copies of the groups that the thread has waited for.
    pub fn waited(&self) -> u64 {
        self.waited
    }

    /// The oldest item lands; how many have landed before it.
    pub fn land(&mut self) -> (u64, Option<Item>) {
        self.landed += 1;
        (self.landed - 1, self.queue.pop_front())
    }

    /// Where the copy in flight was issued that writes to an address.
    pub fn writes(&self, in_cta: usize, addr: u32) -> Option<Loc> {
        self.queue.iter().find_map(|i| match i {
            Item::Copy { cta, dst, loc, .. } if *cta == in_cta && addr.wrapping_sub(*dst) < 16 => {
                Some(*loc)
            }
            _ => None,
        })
    }

    /// Where a copy in flight was issued that no arrival follows: when the thread has returned, nobody can wait for it.
    pub fn left_over(&self) -> Option<Loc> {
        self.queue.iter().rev().map_while(Item::copy).last()
    }

    /// Where a copy in flight was issued.
    pub fn in_flight(&self) -> Option<Loc> {
        self.queue.iter().find_map(Item::copy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PTX manual, *cp.async.wait_group*: waits until at most N of the most recent groups are
    /// pending.
    #[test]
    fn groups_complete_in_the_order_of_their_copies() {
        let mut cp = CpAsync::default();
        for bar in 0..2 {
            assert_eq!(cp.next(), bar as u64 + 1);
            cp.issue(Item::Arrive { bar });
            cp.commit();
        }
        let mut groups = Vec::new();
        assert!(cp.wait(2, |n| groups.push(n)) && !cp.wait(1, |n| groups.push(n)));
        assert!(matches!(cp.land(), (0, Some(Item::Arrive { bar: 0 }))));
        assert!(cp.wait(1, |n| groups.push(n)) && !cp.wait(0, |n| groups.push(n)));
        assert!(matches!(cp.land(), (1, Some(Item::Arrive { bar: 1 }))));
        assert!(cp.wait(0, |n| groups.push(n)));
        assert_eq!((groups, cp.waited()), (vec![1, 2], 2));
    }
}
