//! What is kept of a cluster's protocol, and who asks for it.

use crate::walk::clock::Past;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The launch in a run, and the cluster in its grid.
pub(crate) type Place = (u32, u32);

/// The protocol state at a moment of a run at which nothing is in the middle of an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Events before it.
    pub at: usize,
    /// Barriers, copies, groups and threads, as numbers.
    pub state: Vec<u64>,
}

/// Who did an event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tag {
    /// None: a copy landed.
    pub thread: Option<u32>,
    pub name: &'static str,
}

/// What each agent of an exploration had done, and knew of the others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Knowledge {
    /// By agent, threads first.
    pub clocks: Vec<Past>,
    /// By agent: whether it is a copy, and whether it is a `cp.async` queue.
    pub copies: Vec<(bool, bool)>,
}

/// The protocol of a cluster that ran to its end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    pub kernel: String,
    pub threads: u32,
    /// The events, each as a number that stands for thread, instruction, line and operands.
    pub word: Vec<u64>,
    pub marks: Vec<Mark>,
    /// An instruction with which clusters can wait for each other, and its line.
    pub shares: Option<(&'static str, String)>,
    /// The mbarriers' names, and the stages of each.
    pub barriers: BTreeMap<String, u32>,
    /// Of a probe: who did each event, and the clocks at the positions that were asked for.
    pub tags: Vec<Tag>,
    pub known: BTreeMap<usize, Knowledge>,
}

/// Asks for the records of the clusters of a run, and takes them.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    /// Positions in the clusters' words whose clocks are kept; if there are any, the tags are, too.
    pub probes: BTreeMap<Place, Vec<usize>>,
    records: Mutex<BTreeMap<Place, Record>>,
}

impl Recorder {
    /// One that keeps clocks.
    pub fn probe(probes: BTreeMap<Place, Vec<usize>>) -> Self {
        Self { probes, records: Mutex::default() }
    }

    pub fn put(&self, place: Place, record: Record) {
        self.records.lock().unwrap_or_else(PoisonError::into_inner).insert(place, record);
    }

    /// The records since it was last asked.
    pub fn take(&self) -> BTreeMap<Place, Record> {
        std::mem::take(&mut self.records.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
