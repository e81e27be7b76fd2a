//! mbarrier instructions: the state machine of [`crate::mbarrier`] in a CTA's shared memory.

use crate::Rule;
use crate::cluster::Cluster;
use crate::config::SMEM_BASE;
use crate::explore::order::Key;
use crate::fault::Fault;
use crate::mbarrier::MBarrier;
use crate::memory::shared::Conflict;
use crate::race::sync::Scope;
use crate::thread::{Arrival, Bar, Wait, Wake};
use std::task::Poll;

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
}

/// An arrival's kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arrive {
    Plain,
    NoComplete,
    Drop,
}

impl Cluster {
    /// Splits a `shared::cluster` address: rank of the CTA, and address there.
    pub fn split(&self, t: u32, addr: u32) -> Result<(usize, u32), Fault> {
        let own = self.threads[t as usize].cta;
        let cta = match addr >> 24 {
            0 => own,
            r => r as usize - 1,
        };
        let local = addr & 0xff_ffff;
        let Some(peer) = self.ctas.get(cta) else {
            return Err(Fault::new(
                Rule::RemoteAddress,
                format!("{addr:#x} names CTA {cta} of a cluster of {}", self.ctas.len()),
            ));
        };
        if cta != own && (!peer.started || peer.live == 0) {
            let how = if peer.started { "has exited" } else { "has not started" };
            return Err(Fault::new(
                Rule::PeerGone,
                format!("CTA {own} reaches for address {local:#x} of CTA {cta}, which {how}"),
            ));
        }
        Ok((cta, local))
    }

    /// A `shared::cta` address.
    pub fn own(&self, t: u32, addr: u32) -> Result<(usize, u32), Fault> {
        let own = self.threads[t as usize].cta;
        match addr >> 24 {
            0 => Ok((own, addr)),
            r if r as usize - 1 == own => Ok((own, addr & 0xff_ffff)),
            _ => Err(Fault::new(
                Rule::RemoteAddress,
                format!("{addr:#x} lies in another CTA; the instruction takes shared::cta"),
            )),
        }
    }

    /// The live mbarrier at an address.
    pub fn bar_at(&self, (cta, addr): (usize, u32)) -> Result<usize, Fault> {
        if !addr.is_multiple_of(8) {
            let message = format!("mbarrier address {addr:#x} is not a multiple of 8");
            return Err(Fault::new(Rule::Misaligned, message));
        }
        self.ctas[cta].smem.barrier_at(addr).ok_or_else(|| {
            let size = self.smem_bytes;
            if addr < SMEM_BASE || addr - SMEM_BASE + 8 > size {
                self.conflict(cta, Conflict { rule: Rule::SharedBounds, addr })
            } else {
                let name = self.ctas[cta].name_of(addr);
                Fault::new(
                    Rule::NotABarrier,
                    format!("{name} of CTA {cta} is not initialised, or was invalidated"),
                )
            }
        })
    }

    pub fn mbarrier_init(&mut self, t: u32, addr: u32, count: u32) -> Result<(), Fault> {
        let (cta, addr) = self.own(t, addr)?;
        if !addr.is_multiple_of(8) {
            let message = format!("mbarrier address {addr:#x} is not a multiple of 8");
            return Err(Fault::new(Rule::Misaligned, message));
        }
        if let Some(old) = self.ctas[cta].smem.barrier_at(addr) {
            let name = self.ctas[cta].name_of(addr);
            return Err(Fault::new(Rule::InitTwice, format!("{name} is live: inval comes before"))
                .against("its initialisation", self.bars[old].init)
                .bar(old));
        }
        let state = MBarrier::init(count)?;
        let bar = self.bars.len();
        self.ctas[cta].smem.set_barrier(addr, bar).map_err(|c| self.conflict(cta, c))?;
        let init = self.threads[t as usize].loc.expect("the instruction has begun");
        let (waiters, arrivals) = (Vec::new(), Vec::new());
        let (inval, looked) = (None, None);
        self.bars.push(Bar {
            cta,
            addr,
            state,
            live: true,
            init,
            inval,
            waiters,
            looked,
            arrivals,
        });
        if let Some(guide) = &mut self.guide {
            guide.init(bar);
            guide.touch(cta as u64, u64::from(addr), 8, true);
        }
        self.race_init(t, bar, (cta, addr, 8))
    }

    pub fn mbarrier_inval(&mut self, t: u32, addr: u32) -> Result<(), Fault> {
        let at = self.own(t, addr)?;
        let bar = self.bar_at(at)?;
        let b = &self.bars[bar];
        if let Some(&w) = b.waiters.first() {
            let waiters = b.waiters.len();
            let loc = self.threads[w as usize].loc.expect("it waits at a line");
            return Err(Fault::new(Rule::InvalInUse, format!("{waiters} threads wait on it"))
                .against("a waiter", loc)
                .bar(bar));
        }
        if b.state.tx != 0 {
            let message = format!("its tx-count is {} bytes", b.state.tx);
            return Err(Fault::new(Rule::InvalInUse, message).bar(bar));
        }
        self.bars[bar].live = false;
        self.bars[bar].inval = self.threads[t as usize].loc;
        if let Some(guide) = &mut self.guide {
            guide.init(bar);
            guide.touch(at.0 as u64, u64::from(at.1), 8, true);
        }
        self.ctas[at.0].smem.clear_barrier(at.1);
        self.race_store(t, (at.0, at.1, 8), false)
    }

    /// Arrives, after expecting `tx` bytes if that is said. Gives the token of the phase before.
    pub fn mbarrier_arrive(
        &mut self,
        t: u32,
        bar: usize,
        n: u32,
        kind: Arrive,
        tx: Option<u32>,
    ) -> Result<u64, Fault> {
        self.note_arrival(t, bar, if tx.is_some() { "arrive.expect_tx" } else { "arrive" });
        self.time_arrival(t, bar, n, tx);
        let state = &mut self.bars[bar].state;
        let token = state.token();
        if let Some(bytes) = tx {
            state.expect_tx(bytes).map_err(|w| Fault::from(w).bar(bar))?;
        }
        let done = match kind {
            Arrive::Plain => state.arrive(n, false),
            Arrive::Drop => state.arrive(n, true),
            Arrive::NoComplete => state.arrive_no_complete(n).map(|()| false),
        };
        let done = done.map_err(|w| Fault::from(w).bar(bar))?;
        self.stepped(bar, kind == Arrive::NoComplete, done);
        Ok(token)
    }

    pub fn mbarrier_expect(&mut self, t: u32, bar: usize, bytes: u32) -> Result<(), Fault> {
        self.note_arrival(t, bar, "expect_tx");
        self.time_arrival(t, bar, 0, Some(bytes));
        self.bars[bar].state.expect_tx(bytes).map_err(|w| Fault::from(w).bar(bar))?;
        self.stepped(bar, true, false);
        Ok(())
    }

    /// Completes bytes: by an instruction, or because a copy landed.
    pub fn mbarrier_complete(&mut self, bar: usize, bytes: u32) -> Result<(), Fault> {
        if !self.bars[bar].live {
            return Err(Fault::new(
                Rule::InvalInUse,
                format!("{bytes} bytes complete on an mbarrier that was invalidated meanwhile"),
            )
            .bar(bar));
        }
        let done = self.bars[bar].state.complete_tx(bytes).map_err(|w| Fault::from(w).bar(bar))?;
        let t = self.current;
        self.timed(|time| time.completes(t, bar));
        self.stepped(bar, false, done);
        Ok(())
    }

    /// A barrier came nearer to the end of its phase, or to it. `ordered`: other steps of the phase
    /// decide what this one does.
    fn stepped(&mut self, bar: usize, ordered: bool, done: bool) {
        if let Some(guide) = &mut self.guide {
            guide.visit(self.bars[bar].cta);
            guide.arrive(Key::Barrier(bar), ordered, done);
        }
        if done {
            self.phase_done(bar);
        }
    }

    fn phase_done(&mut self, bar: usize) {
        let phase = self.bars[bar].state.phase.wrapping_sub(1);
        self.edge(|race| race.phase_done(bar, phase));
        self.timed(|time| time.phase_done(bar, phase));
        if let Some(t) = self.lapped(bar) {
            let done = self.bars[bar].state.phase.wrapping_sub(1);
            let fault = self.lap(bar, done.wrapping_sub(1));
            let loc = self.threads[t as usize].loc;
            self.fail_at(Some(t), loc, fault);
        }
        for t in std::mem::take(&mut self.bars[bar].waiters) {
            self.wake(t, 0);
        }
    }

    /// Waits: false when a poll gave up.
    pub fn mbarrier_wait(
        &mut self,
        t: u32,
        addr: u32,
        want: Want,
        poll: bool,
        scope: Scope,
    ) -> Result<Poll<bool>, Fault> {
        let waited = self.threads[t as usize].wait;
        match (self.woken(t), waited) {
            (Wake::TimedOut, _) => return Ok(Poll::Ready(false)),
            (Wake::Go(_), Wait::MBarrier { bar, phase, .. }) => {
                self.after_wait(bar, phase)?;
                self.edge(|race| race.waited(t, bar, scope));
                self.time_wait(t, bar, phase);
                return Ok(Poll::Ready(true));
            }
            _ => {}
        }
        let bar = self.bar_at(self.own(t, addr)?)?;
        self.bars[bar].looked = Some(t);
        self.race_uses(t, bar, false)?;
        let state = &self.bars[bar].state;
        let done = match want {
            Want::Parity(p @ 0..=1) => state.parity_done(p),
            Want::Parity(p) => {
                let message = format!("phase parity {p}: 0 or 1");
                return Err(Fault::new(Rule::Operand, message).bar(bar));
            }
            Want::Token(token) => match state.phases_since(token) {
                0 => false,
                1 => true,
                n => {
                    let message = format!("a token of {n} phases ago: at most one");
                    return Err(Fault::new(Rule::Lapped, message).bar(bar));
                }
            },
        };
        let phase = state.phase;
        if let Some(guide) = &mut self.guide {
            guide.look(t, bar, phase, !poll);
            if !done && poll && guide.poll_failed(t, bar, phase) {
                return Ok(Poll::Ready(false));
            }
        }
        if done {
            self.edge(|race| race.waited(t, bar, scope));
            self.time_wait(t, bar, phase.wrapping_sub(1));
            return Ok(Poll::Ready(true));
        }
        self.bars[bar].waiters.push(t);
        self.sleep(t, Wait::MBarrier { bar, phase, poll });
        Ok(Poll::Pending)
    }

    /// What a woken waiter sees when it at last runs: on the chip it looks at the parity only now.
    fn after_wait(&self, bar: usize, phase: u32) -> Result<(), Fault> {
        let b = &self.bars[bar];
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
    fn lap(&self, bar: usize, phase: u32) -> Fault {
        let now = self.bars[bar].state.phase;
        let says = if now.wrapping_sub(phase).is_multiple_of(2) {
            "not complete"
        } else {
            "complete, by luck"
        };
        let message = format!(
            "waited for phase {}; when it could look, phase {now} was in progress: the parity says \
             {says}",
            phase as i32
        );
        Fault::new(Rule::Lapped, message).bar(bar)
    }

    fn time_arrival(&mut self, t: u32, bar: usize, count: u32, bytes: Option<u32>) {
        let (loc, phase) = (self.threads[t as usize].loc, self.bars[bar].state.phase);
        self.timed(|time| time.arrives(t, loc, (bar, phase), count, bytes));
    }

    fn time_wait(&mut self, t: u32, bar: usize, phase: u32) {
        let loc = self.threads[t as usize].loc;
        self.timed(|time| time.waited(t, loc, bar, phase));
    }

    /// Remembers who arrives where, for reports.
    fn note_arrival(&mut self, t: u32, bar: usize, what: &'static str) {
        let thread = &self.threads[t as usize];
        let Some(loc) = thread.loc else { return };
        let b = &mut self.bars[bar];
        let phase = b.state.phase;
        let role = thread.role;
        let same = |a: &&mut Arrival| std::ptr::eq(a.loc, loc) && a.what == what && a.role == role;
        if let Some(a) = b.arrivals.iter_mut().find(same) {
            (a.times, a.thread, a.phase) = (a.times + 1, t, phase);
        } else if b.arrivals.len() < 8 {
            b.arrivals.push(Arrival { what, loc, role, times: 1, thread: t, phase });
        }
    }
}
