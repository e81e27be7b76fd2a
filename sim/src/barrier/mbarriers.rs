//! The mbarriers of a cluster: the state machines of [`super::mbarrier`], with their waiters.

use super::history::{Arrival, History};
use super::labels::Labels;
use super::mbarrier::MBarrier;
use super::uses::{Mark, Uses, phase_name};
use crate::finding::fault::Fault;
use crate::finding::report::ThreadPlace;
use crate::finding::rule::Rule;
use crate::types::loc::Loc;

/// What a wait is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Want {
    Parity(u32),
    Token(u64),
}

impl Want {
    /// Whether a barrier in this state is what is waited for.
    pub fn done(self, state: &MBarrier) -> bool {
        match self {
            Self::Parity(p) => p > 1 || state.parity_done(p),
            Self::Token(token) => state.phases_since(token) > 0,
        }
    }

    /// The same, where the operand must be one that the instruction takes.
    fn check(self, state: &MBarrier) -> Result<bool, Fault> {
        match self {
            Self::Parity(p @ 0..=1) => Ok(state.parity_done(p)),
            Self::Parity(p) => Err(Fault::new(
                Rule::Operand,
                format!("a wait with parity {p}: it is 0 or 1, the phase modulo 2"),
            )),
            Self::Token(token) => match state.phases_since(token) {
                0 => Ok(false),
                1 => Ok(true),
                n => {
                    let message = format!("a token of {n} phases ago: at most one");
                    Err(Fault::new(Rule::Lapped, message))
                }
            },
        }
    }
}

/// An arrival's kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arrive {
    Plain,
    NoComplete,
    Drop,
}

/// An mbarrier in shared memory, and who uses it.
pub(crate) struct Bar {
    pub cta: usize,
    pub addr: u32,
    pub state: MBarrier,
    /// Whether it has not been invalidated.
    pub live: bool,
    /// Where it was initialised.
    pub init: Loc,
    /// Where it was invalidated, once it has been.
    inval: Option<Loc>,
    waiters: Vec<u32>,
    /// The thread that looked at it last, for reports.
    pub looked: Option<u32>,
    history: History,
    /// What each thread did there last, for reports.
    pub uses: Uses,
}

impl Bar {
    /// Who arrived there, for reports.
    pub fn arrivals(&self) -> &[Arrival] {
        self.history.all()
    }
}

/// The mbarriers of a cluster, by the order of their initialisation. Those that were invalidated
/// keep their numbers.
#[derive(Default)]
pub(crate) struct Mbarriers {
    all: Vec<Bar>,
    pub labels: Labels,
}

impl Mbarriers {
    pub fn all(&self) -> &[Bar] {
        &self.all
    }

    #[inline]
    pub fn get(&self, bar: usize) -> &Bar {
        &self.all[bar]
    }

    /// What a report calls the barrier.
    pub fn name(&self, bar: usize) -> String {
        let b = &self.all[bar];
        self.labels.name_of(b.cta, b.addr)
    }

    /// The number of the barrier that is initialised next.
    pub fn next(&self) -> usize {
        self.all.len()
    }

    /// `init` where the barrier `old` lives.
    pub fn init_twice(&self, old: usize) -> Fault {
        let name = self.name(old);
        Fault::new(
            Rule::InitTwice,
            format!("{name} is initialised already: mbarrier.inval comes before a second init"),
        )
        .against("its initialisation", self.all[old].init)
        .bar(old)
    }

    /// `init`: the barrier gets the number [`Self::next`].
    pub fn init(&mut self, (cta, addr): (usize, u32), state: MBarrier, init: Loc) {
        self.all.push(Bar {
            cta,
            addr,
            state,
            live: true,
            init,
            inval: None,
            waiters: Vec::new(),
            looked: None,
            history: History::default(),
            uses: Uses::default(),
        });
    }

    /// `inval` at a line; `line_of` tells where a waiter waits.
    pub fn inval(
        &mut self,
        bar: usize,
        at: Option<Loc>,
        line_of: impl Fn(u32) -> Loc,
    ) -> Result<(), Fault> {
        let b = &mut self.all[bar];
        if let Some(&w) = b.waiters.first() {
            let waiters = b.waiters.len();
            return Err(Fault::new(Rule::InvalInUse, format!("{waiters} threads wait on it"))
                .against("a waiter", line_of(w))
                .bar(bar));
        }
        if b.state.tx != 0 {
            let message = format!("its tx-count is {} bytes", b.state.tx);
            return Err(Fault::new(Rule::InvalInUse, message).bar(bar));
        }
        b.live = false;
        b.inval = at;
        Ok(())
    }

    /// `inval`, and nothing orders the end of another thread's wait before it.
    pub fn may_wait(bar: usize, who: ThreadPlace, wait: Loc) -> Fault {
        let message = format!(
            "nothing orders the end of a wait of {who} before it: under another schedule the thread has \
             yet to look. Threads that wait synchronise with the one that executes inval"
        );
        Fault::new(Rule::InvalInUse, message).against("a wait", wait).bar(bar)
    }

    /// Remembers an arrival for reports.
    pub fn note(
        &mut self,
        bar: usize,
        (thread, role): (u32, Option<&'static str>),
        what: &'static str,
        loc: Option<Loc>,
    ) {
        let Some(loc) = loc else { return };
        let b = &mut self.all[bar];
        let phase = b.state.phase;
        b.history.note(Arrival { what, loc, role, times: 1, thread, phase });
    }

    /// Remembers for reports that a thread arrives at a step of the cluster.
    pub fn arrives(&mut self, bar: usize, thread: u32, step: u64, loc: Option<Loc>) {
        let b = &mut self.all[bar];
        if let Some(loc) = loc {
            b.uses.arrives(thread, Mark { phase: b.state.phase, step, loc });
        }
    }

    /// Remembers for reports that a thread sees a phase complete.
    pub fn sees(&mut self, bar: usize, thread: u32, (phase, step): (u32, u64), loc: Option<Loc>) {
        if let Some(loc) = loc {
            self.all[bar].uses.sees(thread, Mark { phase, step, loc });
        }
    }

    /// The last wait of a thread that ended: on which mbarrier, and for which phase.
    pub fn last_wait(&self, thread: u32) -> Option<(usize, Mark)> {
        let waits = self.all.iter().enumerate();
        waits.filter_map(|(i, b)| Some((i, b.uses.of(thread).saw?))).max_by_key(|w| w.1.step)
    }

    /// The barrier beside this one in a slot of a ring, by their names: `full` and `empty`.
    pub fn beside(&self, bar: usize) -> Option<usize> {
        let b = &self.all[bar];
        let (name, stage) = self.labels.get(b.cta, b.addr)?;
        let other = match name.strip_suffix("full") {
            Some(ring) => format!("{ring}empty"),
            None => format!("{}full", name.strip_suffix("empty")?),
        };
        let is = |o: &Bar| {
            o.cta == b.cta
                && o.live
                && self.labels.get(o.cta, o.addr).is_some_and(|l| l.0 == other && l.1 == stage)
        };
        self.all.iter().position(is)
    }

    /// Arrives, after expecting `tx` bytes if that is said. Gives the token of the phase before, and
    /// whether the phase is complete.
    pub fn arrive(
        &mut self,
        bar: usize,
        n: u32,
        kind: Arrive,
        tx: Option<u32>,
    ) -> Result<(u64, bool), Fault> {
        let about = |w| Fault::from(w).bar(bar);
        let state = &mut self.all[bar].state;
        let token = state.token();
        if let Some(bytes) = tx {
            state.expect_tx(bytes).map_err(about)?;
        }
        let done = match kind {
            Arrive::Plain => state.arrive(n, false),
            Arrive::Drop => state.arrive(n, true),
            Arrive::NoComplete => state.arrive_no_complete(n).map(|()| false),
        };
        Ok((token, done.map_err(about)?))
    }

    /// `expect_tx`.
    pub fn expect(&mut self, bar: usize, bytes: u32) -> Result<(), Fault> {
        self.all[bar].state.expect_tx(bytes).map_err(|w| Fault::from(w).bar(bar))
    }

    /// `complete_tx`, by an instruction or by a copy that landed; whether the phase is complete.
    pub fn complete(&mut self, bar: usize, bytes: u32) -> Result<bool, Fault> {
        let b = &mut self.all[bar];
        if !b.live {
            let message =
                format!("{bytes} bytes complete on an mbarrier that was invalidated meanwhile");
            return Err(Fault::new(Rule::InvalInUse, message).bar(bar));
        }
        b.state.complete_tx(bytes).map_err(|w| Fault::from(w).bar(bar))
    }

    /// A thread looks at a barrier: whether that is what it waits for, and the phase in progress.
    pub fn look(&self, bar: usize, want: Want) -> Result<(bool, u32), Fault> {
        let state = &self.all[bar].state;
        let done = want.check(state).map_err(|fault| fault.bar(bar))?;
        Ok((done, state.phase))
    }

    /// Remembers who looked, for reports.
    pub fn looked(&mut self, bar: usize, t: u32) {
        self.all[bar].looked = Some(t);
    }

    /// The thread sleeps until the phase in progress is complete.
    pub fn wait(&mut self, bar: usize, t: u32) {
        self.all[bar].waiters.push(t);
    }

    /// The thread's poll gives up.
    pub fn forget(&mut self, bar: usize, t: u32) {
        self.all[bar].waiters.retain(|&w| w != t);
    }

    /// Takes the threads that slept until a phase was complete.
    pub fn take_waiters(&mut self, bar: usize) -> Vec<u32> {
        std::mem::take(&mut self.all[bar].waiters)
    }

    /// What a woken waiter sees when it at last runs. On the chip it looks at the parity only now.
    pub fn after_wait(&self, bar: usize, phase: u32) -> Result<(), Fault> {
        let b = &self.all[bar];
        if !b.live {
            let message = "invalidated after the phase completed, before a waiter could see it";
            let fault = Fault::new(Rule::InvalInUse, message).bar(bar);
            let inval = b.inval.expect("it is not live");
            return Err(fault.against("its invalidation", inval));
        }
        let behind = b.state.phase.wrapping_sub(phase);
        if behind >= 2 {
            return Err(self.lap(bar, phase));
        }
        Ok(())
    }

    /// A waiter for `phase` comes too late.
    pub fn lap(&self, bar: usize, phase: u32) -> Fault {
        let now = self.all[bar].state.phase;
        let says = if now.wrapping_sub(phase).is_multiple_of(2) {
            "not complete"
        } else {
            "complete, by luck"
        };
        let message = format!(
            "a thread waited for {} of {}, and when it could look, phase {now} was in progress: the \
             parity says {says}. Arrivals may be at most one phase ahead of a waiter",
            phase_name(phase),
            self.name(bar)
        );
        Fault::new(Rule::Lapped, message).bar(bar)
    }

    /// A phase completes, and a thread that waited for the one before may not have seen it.
    pub fn may_lap(&self, bar: usize, phase: u32, who: ThreadPlace) -> Fault {
        let before = phase.wrapping_sub(1) as i32;
        let name = self.name(bar);
        let message = format!(
            "{who} waits for phase {before} of {name}, and nothing orders the end of this wait before an \
             arrival of phase {phase}, which completes: a thread that is slow to look finds the parity of \
             a phase in progress again. An arrival of each phase must come after all waits for the one \
             before"
        );
        let fault = Fault::new(Rule::Lapped, message).bar(bar);
        match self.all[bar].arrivals().iter().rev().find(|a| a.phase == phase) {
            Some(a) => fault.against(format!("an arrival of phase {phase}"), a.loc),
            None => fault,
        }
    }

    /// A thread that saw a phase last, if any, waits for a parity, and this phase need not be the one that
    /// it means.
    pub fn missed(&self, bar: usize, last: Option<u32>, phase: u32) -> Fault {
        let had = match last {
            Some(last) => format!("the thread's last wait here was for phase {}", last as i32),
            None => "the thread has not waited here before".to_owned(),
        };
        let message = format!(
            "{}: {had}, and a wait for parity {} is now one for phase {phase}; nothing tells the thread that \
             phase {} is over, so it was lapped, or leaves out a phase that may be in progress",
            self.name(bar),
            phase & 1,
            phase - 1
        );
        Fault::new(Rule::Lapped, message).bar(bar)
    }

    /// A thread has passed a wait, which was for `phase`: on the chip the parity could not tell.
    pub fn waited_for(&self, bar: usize, phase: u32) -> Result<(), Fault> {
        let now = self.all[bar].state.phase;
        let behind = now.wrapping_sub(phase) as i32;
        match behind {
            1 => Ok(()),
            2.. => Err(self.lap(bar, phase)),
            _ => {
                let message = format!(
                    "a wait for phase {phase} passed while phase {now} was in progress: phase {} has \
                     the same parity. Who skips slots may wait for the next one only after the \
                     skipped ones were waited for by their own readers, as in the turns of an \
                     OrderedSequence",
                    now.wrapping_sub(1) as i32
                );
                Err(Fault::new(Rule::Lapped, message).bar(bar))
            }
        }
    }

    /// A barrier of a CTA that exits, with bytes that were expected or landed, and not the other.
    pub fn left_over(&self, cta: usize) -> Option<(Fault, Option<Loc>)> {
        let left = |b: &Bar| b.cta == cta && b.live && b.state.tx != 0;
        let bar = self.all.iter().position(left)?;
        let b = &self.all[bar];
        // Bytes that landed and were not expected, of which no later phase will hear.
        let rule = if b.state.tx < 0 { Rule::TxOverrun } else { Rule::TxLeftOver };
        let (name, tx) = (self.name(bar), b.state.tx);
        let message = if tx < 0 {
            format!("CTA {cta} exits, and {} bytes more landed on {name} than were expected", -tx)
        } else {
            format!("CTA {cta} exits, and {tx} bytes that {name} expects have not landed")
        };
        Some((Fault::new(rule, message).bar(bar), b.arrivals().last().map(|a| a.loc)))
    }

    /// A barrier of a cluster that has exited in the middle of a phase: some arrivals came, and not all.
    pub fn mid_phase(&self) -> Option<(Fault, Option<Loc>)> {
        let bar = self.all.iter().position(|b| b.live && b.state.begun > 0)?;
        let b = &self.all[bar];
        let MBarrier { phase, pending, expected, begun, .. } = b.state;
        let line = |a: &Arrival| {
            let by = a.role.map_or(String::new(), |role| format!(" by {role}"));
            format!("{} at {}:{}{by}", a.what, a.loc.file(), a.loc.line())
        };
        let (came, not): (Vec<_>, Vec<_>) = b.arrivals().iter().partition(|a| a.phase == phase);
        let list = |of: &[&Arrival]| of.iter().map(|a| line(a)).collect::<Vec<_>>().join(", ");
        let missing = if not.is_empty() {
            "who should have made them never arrived here".to_owned()
        } else {
            format!("not again since an earlier phase: {}", list(&not))
        };
        let message = format!(
            "CTA {} exits in phase {phase} of {}: {begun} of {expected} arrivals came ({}), and \
             {pending} never will; {missing}",
            b.cta,
            self.name(bar),
            list(&came)
        );
        Some((Fault::new(Rule::MidPhase, message).bar(bar), came.last().map(|a| a.loc)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::Location;

    fn one(count: u32) -> Mbarriers {
        let mut bars = Mbarriers::default();
        bars.init((0, 1024), MBarrier::init(count).unwrap(), Location::caller());
        bars
    }

    #[test]
    fn waiters_are_given_back_when_the_phase_is_complete() {
        let mut bars = one(2);
        bars.wait(0, 7);
        bars.wait(0, 8);
        bars.forget(0, 7);
        assert!(!bars.arrive(0, 1, Arrive::Plain, None).unwrap().1);
        assert!(bars.arrive(0, 1, Arrive::Plain, None).unwrap().1);
        assert_eq!(bars.take_waiters(0), [8]);
        assert!(bars.after_wait(0, 0).is_ok());
    }

    #[test]
    fn a_waiter_two_phases_behind_is_lapped() {
        let mut bars = one(1);
        for _ in 0..2 {
            bars.arrive(0, 1, Arrive::Plain, None).unwrap();
        }
        assert_eq!(bars.after_wait(0, 0).unwrap_err().rule, Rule::Lapped);
        assert_eq!(bars.look(0, Want::Token(0)).unwrap_err().rule, Rule::Lapped);
        assert_eq!(bars.look(0, Want::Parity(2)).unwrap_err().rule, Rule::Operand);
    }

    #[test]
    fn a_wait_that_passes_is_for_the_phase_before_the_one_in_progress() {
        let mut bars = one(1);
        // A fresh barrier: phase -1 has the parity of phase 1.
        assert!(bars.look(0, Want::Parity(1)).unwrap().0);
        let early = bars.waited_for(0, 1).unwrap_err();
        assert_eq!(early.rule, Rule::Lapped);
        assert!(early.message.contains("phase -1 has the same parity"), "{}", early.message);
        bars.arrive(0, 1, Arrive::Plain, None).unwrap();
        bars.waited_for(0, 0).unwrap();
        assert_eq!(bars.waited_for(0, 2).unwrap_err().rule, Rule::Lapped);
        bars.arrive(0, 1, Arrive::Plain, None).unwrap();
        bars.waited_for(0, 1).unwrap();
        assert_eq!(bars.waited_for(0, 0).unwrap_err().rule, Rule::Lapped);
    }

    #[test]
    fn a_barrier_in_use_is_not_invalidated() {
        let mut bars = one(1);
        bars.wait(0, 3);
        let line = |_| -> Loc { Location::caller() };
        assert_eq!(bars.inval(0, None, line).unwrap_err().rule, Rule::InvalInUse);
        bars.take_waiters(0);
        bars.expect(0, 16).unwrap();
        assert_eq!(bars.inval(0, None, line).unwrap_err().rule, Rule::InvalInUse);
        assert!(bars.left_over(0).is_some() && bars.left_over(1).is_none());
        bars.complete(0, 16).unwrap();
        bars.inval(0, Some(Location::caller()), line).unwrap();
        assert_eq!(bars.complete(0, 16).unwrap_err().rule, Rule::InvalInUse);
        assert_eq!(bars.after_wait(0, 0).unwrap_err().rule, Rule::InvalInUse);
    }
}
