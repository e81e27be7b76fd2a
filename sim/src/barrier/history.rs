//! Who arrived at an mbarrier, for reports.

use crate::types::loc::Loc;

/// Kinds of arrivals that are kept for each mbarrier.
const KEPT: usize = 8;

/// Arrivals of the same role at the same line.
pub(crate) struct Arrival {
    /// The instruction, as a report calls it.
    pub what: &'static str,
    pub loc: Loc,
    pub role: Option<&'static str>,
    pub times: u64,
    /// The thread that arrived last, and the phase in which it did.
    pub thread: u32,
    pub phase: u32,
}

/// The arrivals of an mbarrier, over all of its phases.
#[derive(Default)]
pub(crate) struct History(Vec<Arrival>);

impl History {
    /// Notes an arrival; of the kinds that come after the first eight it keeps none.
    pub fn note(&mut self, new: Arrival) {
        let same = |a: &&mut Arrival| {
            std::ptr::eq(a.loc, new.loc) && a.what == new.what && a.role == new.role
        };
        if let Some(a) = self.0.iter_mut().find(same) {
            (a.times, a.thread, a.phase) = (a.times + 1, new.thread, new.phase);
        } else if self.0.len() < KEPT {
            self.0.push(new);
        }
    }

    /// The kinds of arrivals, in the order in which they came first.
    pub fn all(&self) -> &[Arrival] {
        &self.0
    }
}
