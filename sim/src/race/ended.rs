//! What the threads of a CTA knew when they returned, and who of other CTAs has used its shared memory.

use super::clock::Knows;
use super::times::{Lane, Times, join_into};
use std::sync::Arc;

/// What the threads of a CTA knew that have returned.
#[derive(Default)]
pub(crate) struct Ended {
    /// What is over, and what has come to pass.
    pub known: [Times; 2],
    /// The vectors of the thread that returned last: those of a group have the same.
    last: [Option<Times>; 2],
    /// The last access to the CTA's shared memory of each thread of another CTA: its time and its line.
    pub peers: Vec<(u32, u32, u32)>,
    /// The last copy from its shared memory that completes on each mbarrier: the barrier's agent, the time and the line.
    pub sent: Vec<(u32, u32, u32)>,
}

impl Ended {
    /// A thread of the CTA returns.
    pub fn returns(&mut self, thread: &Knows) {
        for (i, lane) in [Lane::Loose, Lane::Course].into_iter().enumerate() {
            let base = &thread.base[lane as usize];
            if !self.last[i].as_ref().is_some_and(|last| Arc::ptr_eq(last, base)) {
                join_into(&mut self.known[i], base);
                self.last[i] = Some(Arc::clone(base));
            }
        }
    }
}
