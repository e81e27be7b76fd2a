//! The launches of a run, in stream order: which clusters have started and ended, and who waits for whom.
//!
//! A cluster starts when there is room, and keeps its place until it has ended. A grid starts when all
//! before it have ended. A dependent grid may start earlier: when each CTA of the grid ahead has executed
//! `griddepcontrol.launch_dependents` or has ended. Nothing says that it does; so the seed decides. Nor does anything
//! say how many of its CTAs do, and each thread that waits holds a stack: so [`EARLY`] limits them.
//!
//! `griddepcontrol.wait` returns when the grid ahead has ended. That grid may have ended before the one
//! ahead of it, if none of its threads waited for that.

use super::room::{Room, SM};
use crate::types::grid::Grid;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Threads that may have started before the grid ahead of theirs has ended; one cluster always may. Linux by default has room
/// for 65530 mappings of a process, and a stack with its guard page takes two. 132 CTAs of 384 threads would take 101376.
const EARLY: u64 = 8192;

/// When a dependent grid starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Start {
    /// When the grid ahead has ended.
    Late,
    /// When it may, and the turns of the clusters bring it about.
    Drawn,
    /// As soon as it may: it runs as far as it can.
    Early,
}

/// A grid of a run.
pub(crate) struct One {
    pub name: String,
    dependent: bool,
    start: Start,
    /// CTAs, and those of a cluster.
    ctas: u32,
    cluster: u32,
    clusters: u32,
    /// Threads of a cluster.
    threads: u32,
    /// Number of its first cluster among those of the run.
    pub first: u32,
    room: Room,
    /// The clusters, in the order in which they start.
    order: Vec<u32>,
    /// Clusters that have started, or whose launch was cancelled.
    started: AtomicU32,
    /// CTAs that have let the dependent grid start, or have ended.
    signals: AtomicU32,
    /// Clusters that have ended.
    ended: AtomicU32,
    /// Whether a thread has waited for the grid ahead.
    waited: AtomicBool,
}

/// The grids of a run.
pub(crate) struct Stream {
    grids: Vec<One>,
    sms: u32,
    /// Held by whoever starts a cluster.
    starting: Mutex<()>,
}

impl Stream {
    pub fn new<'a>(
        sms: u32,
        grids: impl IntoIterator<Item = (&'a Grid<'a>, bool)>,
        mut start: impl FnMut(usize) -> Start,
        mut order: impl FnMut(usize, u32) -> Vec<u32>,
    ) -> Self {
        let mut first = 0;
        let one = |(i, (grid, dependent)): (usize, (&Grid<'_>, bool))| {
            let ctas = grid.grid.iter().product();
            let (cluster, clusters) = (grid.cluster_size(), ctas / grid.cluster_size());
            first += clusters;
            One {
                name: grid.name.to_owned(),
                dependent: dependent && i > 0,
                start: start(i),
                ctas,
                cluster,
                clusters,
                threads: grid.threads() * cluster,
                first: first - clusters,
                room: Room::of(grid),
                order: order(i, clusters),
                started: AtomicU32::new(0),
                signals: AtomicU32::new(0),
                ended: AtomicU32::new(0),
                waited: AtomicBool::new(false),
            }
        };
        let grids: Vec<One> = grids.into_iter().enumerate().map(one).collect();
        Self { grids, sms, starting: Mutex::default() }
    }

    pub fn grids(&self) -> &[One] {
        &self.grids
    }

    /// Clusters of all grids.
    pub fn clusters(&self) -> u32 {
        self.grids.iter().map(|g| g.clusters).sum()
    }

    /// The most threads that may live at the same time: those of the largest grid as far as there is room for it, and those of
    /// dependent grids that start early.
    pub fn most_threads(&self) -> u64 {
        let of = |g: &One| {
            let resident = SM * u64::from(self.sms) / g.room.parts(g.cluster);
            u64::from(g.threads) * u64::from(g.clusters).min(resident.max(1))
        };
        let largest = self.grids.iter().map(of).max().unwrap_or(0);
        largest + if self.grids.len() > 1 { EARLY } else { 0 }
    }

    fn complete(&self, grid: usize) -> bool {
        self.grids[grid].ended.load(Ordering::Acquire) == self.grids[grid].clusters
    }

    /// Whether clusters of a grid may start, as far as the grids before it are concerned.
    fn eligible(&self, grid: usize) -> bool {
        let one = &self.grids[grid];
        if (0..grid).all(|g| self.complete(g)) {
            return true;
        }
        one.dependent
            && one.start != Start::Late
            && self.signalled(grid - 1)
            && self.may_be_early(grid)
    }

    /// Whether a cluster of a dependent grid may start, as far as [`EARLY`] is concerned.
    fn may_be_early(&self, grid: usize) -> bool {
        let threads =
            |g: usize, clusters: u32| u64::from(self.grids[g].threads) * u64::from(clusters);
        let waiting = (1..=grid).filter(|&g| !self.complete(g - 1));
        let early: u64 = waiting.map(|g| threads(g, self.running(g))).sum();
        self.complete(grid - 1) || early == 0 || early + threads(grid, 1) <= EARLY
    }

    fn signalled(&self, grid: usize) -> bool {
        self.grids[grid].signals.load(Ordering::Acquire) == self.grids[grid].ctas
    }

    fn running(&self, grid: usize) -> u32 {
        // In this order: no more end than start.
        let ended = self.grids[grid].ended.load(Ordering::Acquire);
        self.grids[grid].started.load(Ordering::Acquire) - ended
    }

    /// Whether there is room for a cluster of a grid. The first cluster always finds room.
    fn fits(&self, grid: usize) -> bool {
        let parts = |g: usize, clusters: u32| {
            self.grids[g].room.parts(self.grids[g].cluster) * u64::from(clusters)
        };
        let taken: u64 = (0..=grid).map(|g| parts(g, self.running(g))).sum();
        taken == 0 || taken + parts(grid, 1) <= SM * u64::from(self.sms)
    }

    /// The first grid whose clusters have not all started.
    fn unstarted(&self) -> Option<usize> {
        self.grids.iter().position(|one| one.started.load(Ordering::Acquire) < one.clusters)
    }

    fn next(&self) -> Option<usize> {
        self.unstarted().filter(|&g| self.eligible(g) && self.fits(g))
    }

    /// Whether a cluster can start now, if no other worker starts it first. Each turn asks, so it takes
    /// no lock.
    pub fn has_next(&self) -> bool {
        self.next().is_some()
    }

    /// Whether all clusters have started.
    pub fn all_started(&self) -> bool {
        self.unstarted().is_none()
    }

    /// Starts a cluster, if one can: its grid, its index there, and the how manieth it is.
    pub fn take(&self) -> Option<(usize, u32, u32)> {
        let _starting = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        let grid = self.next()?;
        let one = &self.grids[grid];
        let nth = one.started.fetch_add(1, Ordering::AcqRel);
        Some((grid, one.order[nth as usize], nth))
    }

    /// Cancels the launch of the next cluster of a grid, if there is one: gives its index.
    fn cancel(&self, grid: usize) -> Option<u32> {
        let _starting = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        let one = &self.grids[grid];
        let nth = one.started.load(Ordering::Acquire);
        let index = *one.order.get(nth as usize)?;
        one.started.fetch_add(1, Ordering::AcqRel);
        // For the grids behind it is as if the cluster had ended.
        one.signals.fetch_add(one.cluster, Ordering::AcqRel);
        one.ended.fetch_add(1, Ordering::AcqRel);
        Some(index)
    }

    /// A cluster has ended.
    pub fn ends(&self, grid: usize) {
        self.grids[grid].ended.fetch_add(1, Ordering::AcqRel);
    }

    /// Why clusters have not started, if that is so while nobody can go on.
    pub fn what_is_missing(&self) -> Option<String> {
        let grid = self.unstarted()?;
        let one = &self.grids[grid];
        if self.eligible(grid) {
            let Room { per_sm, limit } = one.room;
            return Some(format!(
                "{} of {} CTAs of `{}` are resident ({} SMs x {per_sm} CTAs each, limited by {limit}), \
                     {} have not started, and a CTA keeps its place until it ends",
                self.running(grid) * one.cluster,
                one.ctas,
                one.name,
                self.sms,
                (one.clusters - one.started.load(Ordering::Acquire)) * one.cluster,
            ));
        }
        let ahead = &self.grids[grid - 1].name;
        let missing = match one.started.load(Ordering::Acquire) {
            0 => format!("`{}` has", one.name),
            n => format!(
                "{} of {} CTAs of `{}` have",
                (one.clusters - n) * one.cluster,
                one.ctas,
                one.name
            ),
        };
        Some(if one.dependent {
            format!(
                "{missing} not started: a dependent grid may start before `{ahead}` has ended, but \
                     nothing says that it does"
            )
        } else {
            format!("{missing} not started: it starts when `{ahead}` has ended")
        })
    }

    /// The clusters of which the threads of a grid know everything from the start: those of grids that
    /// had ended, with all their writes, before the first of a chain of dependent grids started.
    pub fn known_at_start(&self, grid: usize) -> Range<u32> {
        let head = (0..=grid).rev().find(|&g| !self.grids[g].dependent).unwrap_or(0);
        0..self.grids[head].first
    }

    /// The clusters of which a thread knows everything after `griddepcontrol.wait`.
    fn known_after_wait(&self, grid: usize) -> Range<u32> {
        let mut first = grid;
        while self.grids[first].dependent {
            first -= 1;
            if !self.grids[first].waited.load(Ordering::Acquire) {
                break;
            }
        }
        self.grids[first].first..self.grids[grid].first
    }
}

/// A grid, seen from one of its clusters.
#[derive(Clone)]
pub(crate) struct Member {
    pub stream: Arc<Stream>,
    pub grid: usize,
}

impl Member {
    pub fn one(&self) -> &One {
        &self.stream.grids[self.grid]
    }

    /// Name of the kernel that `griddepcontrol.wait` waits for.
    pub fn ahead(&self) -> &str {
        &self.stream.grids[self.grid.saturating_sub(1)].name
    }

    /// Whether `griddepcontrol.wait` has nothing to wait for.
    pub fn may_pass(&self) -> bool {
        !self.one().dependent || self.stream.complete(self.grid - 1)
    }

    /// A thread has waited for the grid ahead: gives the clusters of which it knows everything.
    pub fn passes(&self) -> Range<u32> {
        self.one().waited.store(true, Ordering::Release);
        self.stream.known_after_wait(self.grid)
    }

    /// Cancels the launch of a cluster of the grid that has not started, if there is one: gives its index.
    pub fn cancel(&self) -> Option<u32> {
        self.stream.cancel(self.grid)
    }

    /// A CTA lets the dependent grid start, or ends. Gives how that grid starts if it now may.
    pub fn signals(&self) -> Option<Start> {
        let all = self.one().signals.fetch_add(1, Ordering::AcqRel) + 1 == self.one().ctas;
        let next = self.stream.grids.get(self.grid + 1)?;
        (all && next.dependent).then_some(next.start)
    }

    /// Whether there are other grids.
    pub fn has_others(&self) -> bool {
        self.stream.grids.len() > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(sms: u32, grids: &[(u32, bool)], start: Start) -> Arc<Stream> {
        let grid = |ctas| Grid {
            grid: [ctas, 1, 1],
            block: [384, 1, 1],
            cluster: [1; 3],
            min_ctas: 1,
            smem_bytes: 0,
            name: "k",
        };
        let grids: Vec<_> = grids.iter().map(|&(ctas, d)| (grid(ctas), d)).collect();
        let order = |_, clusters| (0..clusters).rev().collect();
        Arc::new(Stream::new(sms, grids.iter().map(|(g, d)| (g, *d)), |_| start, order))
    }

    fn member(stream: &Arc<Stream>, grid: usize) -> Member {
        Member { stream: Arc::clone(stream), grid }
    }

    #[test]
    fn clusters_start_while_there_is_room() {
        let s = stream(2, &[(3, false)], Start::Drawn);
        assert_eq!([s.take(), s.take(), s.take()], [Some((0, 2, 0)), Some((0, 1, 1)), None]);
        let missing = s.what_is_missing().unwrap();
        assert!(missing.contains("2 of 3 CTAs") && missing.contains("2 SMs x 1"), "{missing}");
        s.ends(0);
        assert_eq!(s.take(), Some((0, 0, 2)));
        assert!(s.all_started() && s.what_is_missing().is_none());
    }

    #[test]
    fn a_cluster_whose_launch_is_cancelled_never_starts() {
        let s = stream(1, &[(3, false), (1, false)], Start::Late);
        assert_eq!(s.take(), Some((0, 2, 0)));
        assert_eq!([member(&s, 0).cancel(), member(&s, 0).cancel()], [Some(1), Some(0)]);
        assert!(member(&s, 0).cancel().is_none() && !s.has_next());
        s.ends(0);
        assert_eq!(s.take(), Some((1, 0, 0)), "all of the first grid is over");
    }

    #[test]
    fn a_dependent_grid_starts_when_all_ctas_ahead_have_signalled() {
        for start in [Start::Drawn, Start::Late] {
            let s = stream(4, &[(2, false), (1, true)], start);
            assert!(s.take().is_some() && s.take().is_some() && !s.has_next());
            assert!(member(&s, 0).signals().is_none() && !s.has_next());
            assert_eq!(member(&s, 0).signals(), Some(start));
            assert_eq!(s.has_next(), start == Start::Drawn);
            assert!(!member(&s, 1).may_pass());
            s.ends(0);
            s.ends(0);
            assert!(s.has_next() && member(&s, 1).may_pass());
        }
    }

    /// A grid of one CTA leaves room for a dependent grid that fills the machine, and all its threads would wait.
    #[test]
    fn few_threads_start_early() {
        let s = stream(132, &[(1, false), (132, true), (1, true)], Start::Early);
        assert!(s.take().is_some() && member(&s, 0).signals().is_some());
        let early = std::iter::from_fn(|| s.take()).count() as u64;
        assert_eq!(early, EARLY / 384);
        assert!(
            s.what_is_missing()
                .unwrap()
                .starts_with("111 of 132 CTAs of `k` have not started: a dependent")
        );
        // One that ends without a wait makes room for another one.
        s.ends(1);
        assert_eq!(std::iter::from_fn(|| s.take()).count(), 1);
        s.ends(0);
        assert_eq!(std::iter::from_fn(|| s.take()).count(), 110, "nothing holds them up any more");
    }

    #[test]
    fn a_grid_that_does_not_wait_breaks_the_chain() {
        let s = stream(4, &[(1, false), (2, false), (1, true), (1, true)], Start::Early);
        assert_eq!(s.known_at_start(1), 0..1);
        assert_eq!(s.known_at_start(3), 0..1);
        assert_eq!(s.known_after_wait(3), 3..4);
        assert_eq!(member(&s, 2).passes(), 1..3);
        assert_eq!(s.known_after_wait(3), 1..4);
    }
}
