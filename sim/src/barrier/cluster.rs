//! `barrier.cluster`: one barrier of all threads of the cluster, in two halves.
//!
//! PTX manual, *barrier.cluster*: wait waits for all non-exited threads of the cluster to arrive;
//! each thread's arrive is followed by its wait.

use crate::finding::fault::Fault;
use crate::finding::rule::Rule;

/// The cluster's barrier.
pub(crate) struct ClusterBarrier {
    phase: u32,
    /// Threads that arrived in this phase.
    arrived: u32,
    /// Exited threads that did not arrive in this phase.
    gone: u32,
    /// All exited threads.
    exited: u32,
    waiters: Vec<u32>,
    /// By thread: the phase at which it arrived, until it waits.
    halves: Vec<Option<u32>>,
}

impl ClusterBarrier {
    pub fn new(threads: u32) -> Self {
        let halves = vec![None; threads as usize];
        Self { phase: 0, arrived: 0, gone: 0, exited: 0, waiters: Vec::new(), halves }
    }

    /// `arrive`. [`Self::settle`] follows.
    pub fn arrive(&mut self, t: u32) -> Result<(), Fault> {
        let half = &mut self.halves[t as usize];
        if half.is_some() {
            return Err(Fault::new(
                Rule::ClusterBarrier,
                "barrier.cluster.arrive a second time without barrier.cluster.wait between",
            ));
        }
        *half = Some(self.phase);
        self.arrived += 1;
        Ok(())
    }

    /// `wait`: whether the phase is complete. If it is not, the thread is woken when it is.
    pub fn wait(&mut self, t: u32) -> Result<bool, Fault> {
        let Some(phase) = self.halves[t as usize] else {
            return Err(Fault::new(
                Rule::ClusterBarrier,
                "barrier.cluster.wait without barrier.cluster.arrive before",
            ));
        };
        if phase == self.phase {
            self.waiters.push(t);
            return Ok(false);
        }
        self.halves[t as usize] = None;
        Ok(true)
    }

    /// A thread exits, and counts as arrived from now on. [`Self::settle`] follows.
    pub fn exit(&mut self, t: u32) {
        self.exited += 1;
        if self.halves[t as usize] != Some(self.phase) {
            self.gone += 1;
        }
    }

    /// Completes the phase if all have come; gives those who waited for it.
    pub fn settle(&mut self) -> Option<Vec<u32>> {
        if self.arrived == 0 || self.come() < self.halves.len() as u32 {
            return None;
        }
        self.phase += 1;
        self.arrived = 0;
        self.gone = self.exited;
        Some(std::mem::take(&mut self.waiters))
    }

    /// Whether a thread has arrived in this phase.
    pub fn has(&self, t: u32) -> bool {
        self.halves[t as usize] == Some(self.phase)
    }

    /// The protocol state: who has arrived, and who has yet to wait.
    pub fn protocol(&self, f: &mut impl FnMut(u64)) {
        for n in [self.arrived, self.gone, self.exited] {
            f(u64::from(n));
        }
        for (t, half) in self.halves.iter().enumerate() {
            if let Some(phase) = half {
                f((t as u64) << 32 | u64::from(self.phase.wrapping_sub(*phase)));
            }
        }
    }

    /// Threads that have arrived in this phase, or exited.
    pub fn come(&self) -> u32 {
        self.arrived + self.gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_halves_alternate() {
        let mut b = ClusterBarrier::new(2);
        assert_eq!(b.wait(0).unwrap_err().rule, Rule::ClusterBarrier);
        b.arrive(0).unwrap();
        assert_eq!(b.settle(), None);
        assert_eq!(b.arrive(0).unwrap_err().rule, Rule::ClusterBarrier);
        assert!(!b.wait(0).unwrap());
        b.arrive(1).unwrap();
        assert_eq!(b.settle(), Some(vec![0]));
        assert!(b.wait(0).unwrap() && b.wait(1).unwrap());
    }

    #[test]
    fn who_has_exited_counts_as_arrived() {
        let mut b = ClusterBarrier::new(2);
        b.exit(1);
        assert_eq!(b.settle(), None, "nobody has arrived");
        for _ in 0..2 {
            b.arrive(0).unwrap();
            assert!(b.settle().is_some());
            assert!(b.wait(0).unwrap());
        }
    }
}
