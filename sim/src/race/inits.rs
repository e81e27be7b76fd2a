//! Whether an mbarrier's initialisation has reached those who use it.

use super::clock::Lane;
use super::shadow::Access;
use super::sync::Scope;
use crate::Rule;
use crate::cluster::Cluster;
use crate::diagnose;
use crate::fault::Fault;

impl Cluster {
    /// A thread initialises a barrier.
    pub fn race_init(&mut self, t: u32, bar: usize, at: (usize, u32, u32)) -> Result<(), Fault> {
        self.race_store(t, at, false)?;
        let Some(race) = &mut self.race else { return Ok(()) };
        let site = race.site(&self.threads[t as usize], t, false);
        let init = Access { agent: t, time: race.threads[t as usize].time, site };
        race.new_bar(bar, init);
        Ok(())
    }

    /// A thread arrives, and releases what it did.
    pub fn race_arrives(&mut self, t: u32, bar: usize, scope: Scope) -> Result<(), Fault> {
        self.race_uses(t, bar, false)?;
        let near = self.threads[t as usize].cta == self.bars[bar].cta;
        self.edge(|race| race.arrives(t, bar, near, scope));
        Ok(())
    }

    /// A thread, or a copy that it issues, uses a barrier.
    pub fn race_uses(&self, t: u32, bar: usize, copy: bool) -> Result<(), Fault> {
        let Some(race) = &self.race else { return Ok(()) };
        let (who, init) = (&race.threads[t as usize], race.bars[bar].init);
        let lane = if copy { Lane::Async } else { Lane::Ordered };
        let seen = |lane| who.knows(lane, init.agent, init.time);
        if seen(lane) || seen(Lane::Inits) {
            return Ok(());
        }
        let b = &self.bars[bar];
        let name = self.ctas[b.cta].name_of(b.addr);
        let (user, maker) = (diagnose::place(self, t), diagnose::place(self, init.agent));
        let why = if seen(Lane::Ordered) {
            "no fence.mbarrier_init or fence.proxy.async makes it visible to copies".to_owned()
        } else if copy && init.agent == t {
            "no fence stands between the two".to_owned()
        } else {
            format!("{user} has not synchronised with {maker} since")
        };
        let message = format!(
            "{name} of CTA {}: {user} uses it ({}) after {maker} initialised it; {why}",
            b.cta, self.threads[t as usize].op
        );
        Err(Fault::new(Rule::InitUnseen, message).against("its initialisation", b.init).bar(bar))
    }
}
