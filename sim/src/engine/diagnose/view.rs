//! What a report is written from.

use crate::engine::machine::Machine;
use crate::engine::steps::Steps;
use crate::finding::report::ThreadPlace;
use crate::schedule::plan::Schedule;
use crate::walk::guide::Guide;

/// What a report is written from.
pub(crate) struct Page<'a> {
    pub hw: &'a Machine,
    pub steps: &'a Steps,
    pub guide: Option<&'a Guide>,
    pub schedule: &'a Schedule,
    pub seed: u64,
}

impl Page<'_> {
    /// Where a thread is.
    pub fn place(&self, t: u32) -> ThreadPlace {
        self.hw.thread(t).place()
    }
}
