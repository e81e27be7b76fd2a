//! A simulated thread: who it is, what it does, and what it waits for.

use super::shape::Shape;
use crate::finding::report::ThreadPlace;
use crate::types::loc::{Loc, Looked};
use crate::types::wait::{Status, Wait, Wake};
use std::ptr;

/// What a thread is told when it is resumed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Resume {
    Run,
    Unwind,
}

/// Where a thread's coroutine gives the processor back.
pub(crate) type Yielder = corosensei::Yielder<Resume, ()>;

/// A simulated thread. What each instruction needs is in the first cache line.
#[repr(C, align(64))]
pub(crate) struct Thread {
    /// Linear index in the cluster.
    pub id: u32,
    /// Linear index in the CTA.
    pub index: u32,
    /// CTA's rank.
    pub cta: usize,
    /// Index of its warp in the cluster.
    pub warp: usize,
    /// The last instruction's line.
    pub loc: Option<Loc>,
    /// The last instruction's name.
    pub op: &'static str,
    /// Set by the thread's coroutine when it starts.
    pub yielder: *const Yielder,
    pub status: Status,
    pub wake: Wake,
    pub wait: Wait,
    pub role: Option<&'static str>,
    /// What it looked at last.
    pub looked: Looked,
}

impl Thread {
    /// The threads of a cluster, CTA by CTA.
    pub fn all(shape: &Shape) -> Vec<Self> {
        let (block, warps) = (shape.block_threads(), shape.warps_per_cta());
        let thread = |id: u32| Self {
            id,
            cta: (id / block) as usize,
            index: id % block,
            warp: (id / block * warps + id % block / 32) as usize,
            status: Status::Ready,
            wait: Wait::Nothing,
            wake: Wake::No,
            loc: None,
            op: "start",
            role: None,
            looked: Looked::default(),
            yielder: ptr::null(),
        };
        (0..shape.threads()).map(thread).collect()
    }

    pub fn lane(&self) -> u32 {
        self.index % 32
    }

    /// Index of its warp group in the CTA.
    pub fn warp_group(&self) -> usize {
        (self.index / 128) as usize
    }

    /// The line of the instruction in progress.
    #[inline]
    pub fn line(&self) -> Loc {
        self.loc.expect("the instruction has begun")
    }

    /// Where it is, for reports.
    pub fn place(&self) -> ThreadPlace {
        ThreadPlace {
            cta: self.cta as u32,
            warp: self.index / 32,
            lane: self.lane(),
            role: self.role,
        }
    }

    /// Whether it sleeps on this kind of wait, and nobody has woken it.
    pub fn sleeps_on(&self, wait: impl Fn(Wait) -> bool) -> bool {
        wait(self.wait) && self.wake == Wake::No
    }
}
