//! What is released on mbarriers and on the cluster's barrier, and who acquires it.

use super::clock::{Knows, Released, Told};
use super::shadow::Access;
use super::times::{LANES, Lane, Times, at, join_into, raise};
use super::waiters::Waiters;
use crate::types::loc::Loc;
use crate::types::scope::Scope;

const STRICT: [Lane; 4] = [Lane::Ordered, Lane::Async, Lane::AsyncGlobal, Lane::Inits];

/// What has been released on an mbarrier. Phases follow each other in one chain of updates of the
/// object, so that a wait sees the arrivals of all phases up to its own.
pub(crate) struct BarClock {
    /// The copies that complete there.
    agent: u32,
    /// Copies completed on the phase in progress.
    copies: bool,
    /// The copy that completed last.
    pub last_copy: Option<Access>,
    /// Its initialisation.
    pub init: Access,
    /// By threads of the barrier's CTA; [`Lane::Loose`] by all.
    near: Released,
    /// By threads of other CTAs, at cluster scope.
    far: Released,
    any_far: bool,
    /// The same at the end of the phase that completed last.
    done: Told,
    done_far: Option<Told>,
    /// Who has seen the phase that completed last, or is about to.
    pub waiters: Waiters,
    /// The `expect_tx`s of the phase in progress that no arrival has followed: thread, time and line.
    expects: Vec<(u32, u32, Loc)>,
}

impl BarClock {
    pub fn new(agent: u32, init: Access) -> Self {
        Self {
            agent,
            copies: false,
            last_copy: None,
            init,
            near: Released::default(),
            far: Released::default(),
            any_far: false,
            done: Told::default(),
            done_far: None,
            waiters: Waiters::default(),
            expects: Vec::new(),
        }
    }

    /// A thread releases on the mbarrier; `near`: they are of the same CTA.
    pub fn arrives(&mut self, thread: &mut Knows, near: bool, scope: Scope) {
        self.follows_expects(thread);
        if near {
            self.near.add(thread, &LANES);
        } else {
            self.near.add(thread, &[Lane::Loose, Lane::Course]);
            if scope >= Scope::Cluster {
                self.far.add(thread, &STRICT);
                self.any_far = true;
            }
        }
        thread.time += 1;
    }

    /// The work of an agent up to a time is told to those who wait.
    pub fn told(&mut self, agent: u32, time: u32) {
        for lane in [Lane::Ordered, Lane::Loose] {
            raise(&mut self.near.lanes[lane as usize], agent, time);
        }
    }

    /// A copy completes in a phase: gives what its write is known by.
    pub fn copy_completes(&mut self, phase: u32, site: u32) -> Access {
        self.copies = true;
        let copy = Access { agent: self.agent, time: phase.wrapping_add(1), site };
        self.last_copy = Some(copy);
        copy
    }

    /// A phase has completed.
    pub fn phase_done(&mut self, phase: u32) {
        if std::mem::take(&mut self.copies) {
            self.told(self.agent, phase.wrapping_add(1));
        }
        raise(&mut self.near.lanes[Lane::Course as usize], self.agent, phase.wrapping_add(1));
        self.done = Told::new(&self.near);
        self.done_far = self.any_far.then(|| Told::new(&self.far));
    }

    /// The agent whose times in [`Lane::Course`] are the phases that have completed.
    pub fn agent(&self) -> u32 {
        self.agent
    }

    /// What must have come to pass for the phase in progress to be where it is.
    pub fn course(&self) -> &Times {
        &self.near.lanes[Lane::Course as usize]
    }

    /// A thread expects bytes without arriving.
    pub fn expects(&mut self, thread: &Knows, loc: Loc) {
        self.expects.push((thread.id, thread.time, loc));
    }

    /// An arrival of a thread: the phase can't complete before what the thread knows of.
    pub fn follows_expects(&mut self, thread: &Knows) {
        let course = &thread.base[Lane::Course as usize];
        self.expects.retain(|&(t, time, _)| t != thread.id && at(course, t) < time);
    }

    /// An expectation of the phase that completes, which no arrival of that phase follows.
    pub fn late_expect(&mut self) -> Option<(u32, Loc)> {
        std::mem::take(&mut self.expects).first().map(|&(t, _, loc)| (t, loc))
    }

    /// A thread has come this far before the phase in progress can complete.
    pub fn comes(&mut self, thread: &Knows) {
        self.near.add(thread, &[Lane::Course]);
    }

    /// Asynchronous work of a thread will complete here: it comes after what the thread knows, whose own accesses it
    /// does not order.
    pub fn follows(&mut self, thread: &Knows) {
        join_into(&mut self.near.lanes[Lane::Loose as usize], &thread.base[Lane::Loose as usize]);
    }

    /// A thread has seen the last phase complete.
    pub fn waited(&mut self, thread: &mut Knows, scope: Scope) {
        self.done.tell(thread);
        if let Some(far) = &mut self.done_far
            && scope >= Scope::Cluster
        {
            far.tell(thread);
        }
    }
}

/// What has been released on the cluster's barrier.
#[derive(Default)]
pub(crate) struct ClusterClock {
    open: Released,
    done: Told,
}

impl ClusterClock {
    /// `barrier.cluster.arrive`; `fenced` is what the thread's last fence released.
    pub fn arrives(
        &mut self,
        thread: &mut Knows,
        release: bool,
        fenced: Option<&(Scope, Released)>,
    ) {
        if release {
            self.open.add(thread, &LANES);
        } else {
            self.open.add(thread, &[Lane::Inits, Lane::Course]);
            // A fence before it makes a release of it, as of any relaxed operation.
            if let Some((scope, what)) = fenced
                && *scope >= Scope::Cluster
            {
                self.open.merge(what);
            }
        }
        thread.time += 1;
    }

    /// All have arrived.
    pub fn done(&mut self) {
        self.done = Told::new(&std::mem::take(&mut self.open));
    }

    /// `barrier.cluster.wait`.
    pub fn waited(&mut self, thread: &mut Knows) {
        self.done.tell(thread);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_knows_what_came_before_the_phase_it_waited_for() {
        let mut bar = BarClock::new(2, Access::default());
        let (mut a, mut b) = (Knows::new(0), Knows::new(1));
        bar.arrives(&mut a, true, Scope::Cta);
        bar.waited(&mut b, Scope::Cta);
        assert!(!b.knows(Lane::Ordered, 0, 1), "the phase is in progress");
        assert_eq!(bar.copy_completes(0, 5), Access { agent: 2, time: 1, site: 5 });
        bar.phase_done(0);
        bar.waited(&mut b, Scope::Cta);
        assert!(b.knows(Lane::Ordered, 0, 1) && b.knows(Lane::Ordered, 2, 1));
        assert!(!b.knows(Lane::Ordered, 0, 2));
    }

    #[test]
    fn a_remote_arrival_reaches_as_far_as_its_scope() {
        let (mut a, mut b) = (Knows::new(0), Knows::new(1));
        let mut bar = BarClock::new(2, Access::default());
        bar.arrives(&mut a, false, Scope::Cta);
        bar.phase_done(0);
        bar.waited(&mut b, Scope::Cluster);
        assert!(b.knows(Lane::Loose, 0, 1) && !b.knows(Lane::Ordered, 0, 1));
        bar.arrives(&mut a, false, Scope::Cluster);
        bar.phase_done(1);
        bar.waited(&mut b, Scope::Cta);
        assert!(!b.knows(Lane::Ordered, 0, 2));
        bar.waited(&mut b, Scope::Cluster);
        assert!(b.knows(Lane::Ordered, 0, 2));
    }
}
