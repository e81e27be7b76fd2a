//! The shadow of tensor memory: who accessed each word last.

use super::shadow::Access;
use super::times::Times;

/// An access to a word of tensor memory. None while the time is 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Touch {
    pub access: Access,
    /// The time of the thread that made it, if that is no multiplication.
    pub own: u32,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Word {
    pub write: Touch,
    pub reads: [Touch; 2],
}

/// The shadow of tensor memory, and what the fences have ordered.
pub(crate) struct TensorClock {
    /// By CTA; by column, then lane.
    pub(super) words: Vec<Vec<Word>>,
    /// By thread: what it knew at its last `fence::after_thread_sync`.
    pub(super) seen: Vec<Times>,
    /// By thread: its `fence::before_thread_sync`s.
    pub(super) fences: Vec<u32>,
}

impl TensorClock {
    pub fn new(threads: u32, ctas: u32) -> Self {
        let n = threads as usize;
        Self {
            words: (0..ctas).map(|_| Vec::new()).collect(),
            seen: vec![Times::default(); n],
            fences: vec![0; n],
        }
    }
}
