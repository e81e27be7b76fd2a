//! What all threads of a warp group know: what a wgmma may follow.

use super::clock::Knows;
use super::judge::Knowledge;
use super::times::{Lane, Times, at};
use std::sync::Arc;

/// What all threads of a warp group know. Most share their vectors.
pub(crate) struct Common([Vec<(Times, Option<u32>)>; 3]);

impl Common {
    pub fn of(threads: &[Knows]) -> Self {
        Self([Lane::Ordered, Lane::Loose, Lane::Async].map(|lane| {
            let mut out: Vec<(Times, Option<u32>)> = Vec::new();
            for t in threads {
                let base = &t.base[lane as usize];
                match out.iter_mut().rev().find(|o| Arc::ptr_eq(&o.0, base)) {
                    Some(o) => o.1 = None,
                    None => out.push((Arc::clone(base), Some(t.id))),
                }
            }
            out
        }))
    }
}

impl Knowledge for Common {
    /// A thread's own work must be known to the others: then the thread itself has released it, in
    /// this lane.
    fn knows(&self, lane: Lane, agent: u32, time: u32) -> bool {
        self.0[lane as usize]
            .iter()
            .all(|(base, only)| *only == Some(agent) || at(base, agent) >= time)
    }
}
