//! A cluster that keeps time.

use super::timing::Timing;
use super::{BarrierName, ThreadTrace, Trace};
use crate::cluster::{Cluster, Next};
use crate::config::{Config, Grid, SMEM_BASE};
use crate::diagnose;

impl Timing {
    /// For a cluster whose trace is asked for, or whose schedule goes by time.
    pub fn of(config: &Config, grid: &Grid<'_>, cluster: u32) -> Option<Box<Self>> {
        let tracing = config.trace.as_ref().filter(|tracing| tracing.cluster == cluster);
        let limit = tracing.map(|tracing| tracing.limit);
        let leads = config.schedule.is_timed();
        (limit.is_some() || leads)
            .then(|| Box::new(Self::new(grid.cluster_size(), grid.threads(), limit, leads)))
    }
}

impl Cluster {
    /// Tells the clocks, if there are any.
    #[inline]
    pub fn timed(&mut self, f: impl FnOnce(&mut Timing)) {
        if let Some(time) = &mut self.time {
            f(time);
        }
    }

    /// Whether the schedule goes by time.
    pub fn goes_by_time(&self) -> bool {
        self.time.as_ref().is_some_and(|time| time.leads)
    }

    /// Whether the thread that runs has come further than others.
    pub fn runs_ahead(&self, t: u32) -> bool {
        let lands = self.copies.iter().map(|copy| copy.landing.at);
        self.time.as_ref().is_some_and(|time| time.ahead(t, &self.sched.ready, lands))
    }

    /// The earliest thread or copy is next.
    pub fn next_timed(&mut self) -> Next {
        let Some(time) = &self.time else { return Next::Again };
        let thread = |&t: &u32| (time.clock(t), t);
        let ready = self.sched.ready.iter().copied().map(|t| thread(&t)).min();
        let copies = self.copies.iter().enumerate();
        let copy = copies.map(|(i, c)| (c.landing.at, c.landing.copy, i)).min();
        match (ready, copy) {
            (Some((now, _)), Some((lands, _, i))) if lands <= now => self.land(i),
            (None, Some((_, _, i))) => self.land(i),
            (Some((_, t)), _) => {
                self.sched.take(t);
                return self.resumed(t);
            }
            (None, None) => return self.idle(),
        }
        Next::Again
    }

    /// Hands the trace over, if it was asked for.
    pub fn hand_over(&mut self, finished: bool) {
        let Some((events, _)) = self.time.as_mut().and_then(|time| time.events.take()) else {
            return;
        };
        let (Some(tracing), Some(time)) = (&self.tracing, &self.time) else { return };
        let label = |cta: usize, addr: u32| self.ctas[cta].labels.get(&addr).copied();
        let thread = |t: usize| ThreadTrace {
            place: diagnose::place(self, t as u32),
            end: time.clock(t as u32),
        };
        tracing.put(Trace {
            kernel: self.name.clone(),
            cluster: self.index,
            ctas: self.ctas.len() as u32,
            block: self.block_threads(),
            smem_base: SMEM_BASE,
            finished,
            dropped: time.dropped,
            threads: (0..self.threads.len()).map(thread).collect(),
            barriers: self
                .bars
                .iter()
                .map(|b| BarrierName {
                    cta: b.cta as u32,
                    addr: b.addr,
                    label: label(b.cta, b.addr),
                })
                .collect(),
            events,
        });
    }
}
