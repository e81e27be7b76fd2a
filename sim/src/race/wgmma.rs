//! A wgmma's reads: of the whole warp group, from the issue on.

use super::clock::{Knows, Lane, Times, at};
use super::explain::{Found, Space};
use super::judge::{By, Knowledge, Way};
use super::shadow::{Access, Clash};
use super::{Agent, Race};
use crate::cluster::Cluster;
use crate::config::SMEM_BASE;
use crate::fault::Fault;
use crate::memory::shared::CHUNK;
use crate::operand::Operand;
use std::sync::Arc;

/// What all threads of a warp group know. Most share their vectors.
struct Common([Vec<(Times, Option<u32>)>; 3]);

impl Common {
    fn of(threads: &[Knows]) -> Self {
        Self([Lane::Ordered, Lane::Loose, Lane::Async].map(|lane| {
            let mut out: Vec<(Times, Option<u32>)> = Vec::new();
            for t in threads {
                let base = &t.base[lane as usize];
                match out.iter_mut().rev().find(|o| Arc::ptr_eq(&o.0, base)) {
                    Some(o) => o.1 = None,
                    None => out.push((Arc::clone(base), Some(t.id))),
                }
            }
            out
        }))
    }
}

impl Knowledge for Common {
    /// A thread's own work must be known to the others: then the thread itself has released it, in
    /// this lane.
    fn knows(&self, lane: Lane, agent: u32, time: u32) -> bool {
        self.0[lane as usize]
            .iter()
            .all(|(base, only)| *only == Some(agent) || at(base, agent) >= time)
    }
}

impl Race {
    fn wgmma(
        &mut self,
        first: u32,
        cta: usize,
        new: Access,
        operands: &[Option<Operand>],
    ) -> Result<(), Clash> {
        let who = Common::of(&self.threads[first as usize..first as usize + 128]);
        let judge = By {
            who: &who,
            way: Way::AsyncRead,
            strong: false,
            agents: &self.agents,
            sites: &self.sites,
        };
        let shadow = &mut self.shared[cta];
        let (mut good, mut result) = (Access::default(), Ok(()));
        for o in operands.iter().flatten() {
            o.for_each_chunk(|_, _, addr| {
                let c = ((addr - SMEM_BASE) / CHUNK) as usize;
                if let Err(clash) = shadow.read_chunk(c, new, &judge, &mut good)
                    && result.is_ok()
                {
                    result = Err((clash, judge.rule(clash.old, true)));
                }
            });
        }
        result.map_err(|(clash, rule)| Clash { rule, ..clash })
    }
}

impl Cluster {
    /// The operands of a wgmma that joins the group of this number, from 1, are read.
    pub fn race_wgmma(
        &mut self,
        t: u32,
        cta: usize,
        wg: usize,
        operands: &[Option<Operand>],
        group: u64,
    ) -> Result<(), Fault> {
        let Some(race) = &mut self.race else { return Ok(()) };
        let site = race.site(&self.threads[t as usize], t, false);
        let agent = race.agent(Agent::Warpgroup { cta, wg });
        let new = Access { agent, time: group as u32, site };
        let first = t - self.threads[t as usize].index % 128;
        let space = Space::Shared { cta };
        race.wgmma(first, cta, new, operands)
            .map_err(|clash| self.explain(&Found { t, clash, space, write: false }))
    }
}
