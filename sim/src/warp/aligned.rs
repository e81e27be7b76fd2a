//! The `.aligned` instructions of a warp: each lane must execute the same ones, in the same order.

use crate::finding::fault::Fault;
use crate::finding::page::ranges;
use crate::finding::rule::Rule;
use crate::types::loc::{Loc, same_line, same_name};
use std::collections::VecDeque;

/// The `.aligned` instructions of a warp, as far as some lane has not executed them yet. A lane may
/// run ahead of the others through those that exchange nothing.
#[repr(C)]
pub(crate) struct Aligned {
    /// Number of the oldest entry, modulo 2^32.
    first: u32,
    entries: VecDeque<Entry>,
    /// By lane: how many it has executed, modulo 2^32.
    executed: [u32; 32],
}

struct Entry {
    name: &'static str,
    loc: Loc,
    lanes: u32,
}

impl Aligned {
    pub fn new() -> Self {
        Self { first: 0, entries: VecDeque::new(), executed: [0; 32] }
    }

    /// A lane executes an instruction, in a warp of which these lanes exist and those have returned.
    pub fn execute(
        &mut self,
        lane: u32,
        (name, loc): (&'static str, Loc),
        lanes: u32,
        exited: u32,
    ) -> Result<(), Fault> {
        let executed = &mut self.executed[lane as usize];
        let at = executed.wrapping_sub(self.first) as usize;
        *executed = executed.wrapping_add(1);
        if at == self.entries.len() {
            // A lane that has returned had executed all that any lane had: it misses this one.
            if exited != 0 {
                let message = format!("{name} after {} of the warp returned", lanes_of(exited));
                return Err(Fault::new(Rule::Diverged, message));
            }
            self.entries.push_back(Entry { name, loc, lanes: 0 });
        }
        let e = &mut self.entries[at];
        if !same_name(e.name, name) || !same_line(e.loc, loc) {
            let message = format!(
                "lane {lane} executes {name} where {} of its warp executed {}",
                lanes_of(e.lanes),
                e.name
            );
            return Err(Fault::new(Rule::Diverged, message).against(e.name, e.loc));
        }
        e.lanes |= 1 << lane;
        while self.entries.front().is_some_and(|e| e.lanes == lanes) {
            self.entries.pop_front();
            self.first = self.first.wrapping_add(1);
        }
        Ok(())
    }

    /// The protocol state: who is ahead of the others, and by how much.
    pub fn protocol(&self, f: &mut impl FnMut(u64)) {
        self.entries.iter().for_each(|e| f(u64::from(e.lanes)));
    }

    /// The oldest instruction that the lane has not executed, though another lane has.
    pub fn missed(&self, lane: u32) -> Option<(&'static str, Loc)> {
        let at = self.executed[lane as usize].wrapping_sub(self.first);
        let e = self.entries.get(at as usize)?;
        Some((e.name, e.loc))
    }
}

/// The lanes of a mask, as a report calls them.
fn lanes_of(mask: u32) -> String {
    let lanes: Vec<u32> = (0..32).filter(|lane| mask >> lane & 1 == 1).collect();
    let s = if lanes.len() == 1 { "" } else { "s" };
    format!("lane{s} {}", ranges(&lanes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::Location;

    #[test]
    fn a_lane_may_run_ahead_but_not_elsewhere() {
        let mut log = Aligned::new();
        let here = Location::caller();
        for name in ["a", "b"] {
            log.execute(0, (name, here), 3, 0).unwrap();
        }
        assert_eq!(log.missed(1), Some(("a", here)));
        log.execute(1, ("a", here), 3, 0).unwrap();
        assert_eq!(log.execute(1, ("c", here), 3, 0).unwrap_err().rule, Rule::Diverged);
        assert_eq!(log.execute(0, ("c", here), 3, 2).unwrap_err().rule, Rule::Diverged);
    }
}
