//! All asynchronous copies of a cluster: those in flight, and the groups of its threads.

use super::cp_async::CpAsync;
use super::flight::Copy;
use super::groups::BulkGroups;
use crate::types::loc::Loc;
use std::ops::Range;

/// The asynchronous copies of a cluster.
pub(crate) struct Copies {
    /// Copies that have not landed, in no order.
    in_flight: Vec<Copy>,
    /// Their bytes, by the mbarrier on which they complete.
    coming: Vec<i64>,
    /// By thread.
    pub bulk: Vec<BulkGroups>,
    pub cp_async: Vec<CpAsync>,
}

impl Copies {
    pub fn new(threads: u32) -> Self {
        Self {
            in_flight: Vec::new(),
            coming: Vec::new(),
            bulk: (0..threads).map(|_| BulkGroups::default()).collect(),
            cp_async: (0..threads).map(|_| CpAsync::default()).collect(),
        }
    }

    pub fn start(&mut self, copy: Copy) {
        if let Some(to) = copy.target() {
            if self.coming.len() <= to.bar {
                self.coming.resize(to.bar + 1, 0);
            }
            self.coming[to.bar] += i64::from(to.bytes);
        }
        self.in_flight.push(copy);
    }

    /// The bytes in flight that complete on an mbarrier.
    pub fn coming(&self, bar: usize) -> i64 {
        self.coming.get(bar).copied().unwrap_or(0)
    }

    /// The copies in flight. Their places change when one lands.
    pub fn in_flight(&self) -> &[Copy] {
        &self.in_flight
    }

    /// The protocol state of the threads' groups and queues that are not empty.
    pub fn protocol(&self, f: &mut impl FnMut(u64)) {
        for (t, (bulk, queue)) in self.bulk.iter().zip(&self.cp_async).enumerate() {
            let mut state = Vec::new();
            bulk.protocol(&mut |x| state.push(x));
            queue.protocol(&mut |x| state.push(x));
            if state != [0] {
                f(t as u64);
                state.into_iter().for_each(&mut *f);
            }
        }
    }

    /// Takes the copy at a place out, for it lands.
    pub fn land(&mut self, place: usize) -> Copy {
        let copy = self.in_flight.swap_remove(place);
        if let Some(to) = copy.target() {
            self.coming[to.bar] -= i64::from(to.bytes);
        }
        copy
    }

    /// Where the bulk copy was issued that has yet to read a byte of shared memory.
    pub fn reading(&self, cta: usize, addr: u32) -> Option<Loc> {
        self.in_flight.iter().find(|c| c.reads(cta, addr)).map(|c| c.loc)
    }

    /// Where the copy was issued that has yet to write a byte of shared memory, and on which mbarrier
    /// it completes.
    pub fn writing(&self, cta: usize, addr: u32) -> Option<(Loc, Option<usize>)> {
        let bulk = self.in_flight.iter().find(|c| c.writes(cta, addr)).map(|c| (c.loc, c.bar()));
        bulk.or_else(|| self.cp_async.iter().find_map(|cp| Some((cp.writes(cta, addr)?, None))))
    }

    /// What a thread that returns leaves behind, and where it was issued.
    pub fn left_by_thread(&self, t: u32) -> Option<(&'static str, Loc)> {
        self.bulk[t as usize].left_over().or_else(|| {
            let loc = self.cp_async[t as usize].left_over()?;
            Some(("a cp.async that nobody can wait for any more", loc))
        })
    }

    /// What a CTA of these threads leaves behind that exits, where it was issued, and on which mbarrier it completes.
    pub fn left_by_cta(
        &self,
        cta: usize,
        threads: Range<u32>,
    ) -> Option<(&'static str, Loc, Option<usize>)> {
        let bulk = self.in_flight.iter().find_map(|c| Some((c.needs(cta)?, c.loc, c.bar())));
        bulk.or_else(|| {
            let queues = &self.cp_async[threads.start as usize..threads.end as usize];
            let loc = queues.iter().find_map(CpAsync::in_flight)?;
            Some(("a cp.async in flight into the CTA's shared memory", loc, None))
        })
    }
}
