//! What must be true when a thread, and its CTA, ends.

use crate::Rule;
use crate::bulk::Kind;
use crate::cluster::Cluster;
use crate::fault::Fault;
use crate::thread::{Loc, Status, Wait};

impl Cluster {
    /// A thread has returned.
    pub fn exited(&mut self, t: u32) {
        let thread = &mut self.threads[t as usize];
        thread.status = Status::Done;
        thread.wait = Wait::Nothing;
        let (cta, w, lane) = (thread.cta, thread.warp, thread.lane());
        self.warps[w].exited |= 1 << lane;
        self.ctas[cta].live -= 1;
        self.live -= 1;
        self.sched.progress = true;
        if let Some(guide) = &mut self.guide {
            guide.exit(cta, self.ctas[cta].live == 0);
        }
        self.cluster_exit(t);
        if let Err((fault, loc)) = self.left_over(t) {
            self.fail_at(Some(t), loc, fault);
        }
    }

    fn left_over(&self, t: u32) -> Result<(), (Fault, Option<Loc>)> {
        let thread = &self.threads[t as usize];
        let at_exit = |what: &str, loc: Loc| {
            let message = format!("a thread returns, and leaves {what}");
            Err((Fault::new(Rule::InFlightAtExit, message), Some(loc)))
        };
        if let Some((name, loc)) = self.warps[thread.warp].log.missed(thread.aligned) {
            let message = format!("lane {} returns without {name}", thread.lane());
            let fault = Fault::new(Rule::Diverged, message).against(name, loc);
            return Err((fault, thread.loc));
        }
        if let Some((what, loc)) = thread.bulk.left_over() {
            return at_exit(what, loc);
        }
        if let Some(loc) = thread.cp.left_over() {
            return at_exit("a cp.async that nobody waited for", loc);
        }
        let block = &self.ctas[thread.cta];
        let first = t - thread.index % 128;
        let done = |o: u32| self.threads[o as usize].status == Status::Done;
        if let Some(loc) = block.warpgroups[(thread.index / 128) as usize].in_flight()
            && (first..first + 128).all(done)
        {
            return at_exit("a wgmma that no wait_group retired", loc);
        }
        if block.live > 0 {
            return Ok(());
        }
        for copy in &self.copies {
            let (here, what) = match copy.kind {
                Kind::TensorLoad { to, .. } | Kind::RunLoad { to, .. } => {
                    (to.cta == thread.cta, "a load in flight into the CTA's shared memory")
                }
                Kind::Peer { cta, to, .. } => {
                    (cta == thread.cta || to.cta == thread.cta, "a copy between CTAs in flight")
                }
                Kind::StoreRead { cta, .. } => {
                    (cta == thread.cta, "a store in flight out of the CTA's shared memory")
                }
                _ => (false, ""),
            };
            if here {
                return at_exit(what, copy.loc);
            }
        }
        for (i, b) in self.bars.iter().enumerate() {
            if b.cta == thread.cta && b.live && b.state.tx != 0 {
                let name = block.name_of(b.addr);
                // Bytes that landed and were not expected, of which no later phase will hear.
                let rule = if b.state.tx < 0 { Rule::TxOverrun } else { Rule::TxLeftOver };
                let message = format!("CTA {} exits with tx {} on {name}", b.cta, b.state.tx);
                let fault = Fault::new(rule, message).bar(i);
                return Err((fault, b.arrivals.last().map(|a| a.loc)));
            }
        }
        Ok(())
    }
}
