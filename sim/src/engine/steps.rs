//! The last instructions of a cluster, and a hash of all of them.

use crate::types::loc::Loc;
use std::panic::Location;

/// Steps that are kept.
const KEPT: usize = 1024;

/// One instruction.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    pub thread: u32,
    pub name: &'static str,
    /// What it works on, usually an address.
    pub arg: u32,
    pub loc: Option<Loc>,
}

/// A ring of the last steps.
#[derive(Default)]
pub(crate) struct Steps {
    ring: Vec<Step>,
    at: usize,
    hash: u64,
}

impl Steps {
    #[inline]
    pub fn note(&mut self, thread: u32, name: &'static str, arg: u32, loc: Option<Loc>) {
        let line = loc.map_or(0, Location::line);
        let word = u64::from(thread) << 44 ^ u64::from(line) << 32 ^ u64::from(arg);
        self.hash = (self.hash.rotate_left(5) ^ word ^ (name.len() as u64) << 60)
            .wrapping_mul(0x517c_c1b7_2722_0a95);
        let step = Step { thread, name, arg, loc };
        if self.ring.len() < KEPT {
            self.ring.push(step);
        } else {
            self.ring[self.at] = step;
            self.at = (self.at + 1) % KEPT;
        }
    }

    /// The hash of all steps so far.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The kept steps, newest first.
    pub fn newest(&self) -> impl Iterator<Item = &Step> {
        self.ring[..self.at].iter().rev().chain(self.ring[self.at..].iter().rev())
    }
}
