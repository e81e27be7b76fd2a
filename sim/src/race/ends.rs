//! What must have come to pass before a CTA exits: the loads into its shared memory, and the last uses by its
//! peers.
//!
//! A CTA lives until its last thread returns. So it is enough that one of its threads had heard of the end
//! of a load, or of a peer's access, when it returned.

use super::agents::Agent;
use super::ended::Ended;
use super::sites::Site;
use super::state::Race;
use super::sync::BarClock;
use super::times::at;
use crate::cluster::thread::Thread;

/// What may come after a CTA has exited, under another schedule.
pub(crate) enum Late {
    /// A load that completes in a phase of a barrier.
    Load { bar: usize, phase: u32, site: Site },
    /// A copy from its shared memory to a peer's, which completes in a phase of a barrier.
    Sent { bar: usize, phase: u32, site: Site },
    /// A `cp.async` of one of its threads.
    CpAsync(Site),
    /// A peer's access.
    Peer(Site),
}

impl Race {
    /// A thread uses the shared memory of a CTA by an instruction of its own.
    #[inline]
    pub fn reaches(&mut self, thread: &Thread, cta: usize) {
        if cta != thread.cta {
            let time = self.threads[thread.id as usize].time;
            let site = self.sites.at(thread, false);
            let peers = &mut self.ended[cta].peers;
            match peers.iter_mut().find(|p| p.0 == thread.id) {
                Some(peer) => *peer = (thread.id, time, site),
                None => peers.push((thread.id, time, site)),
            }
        }
    }

    /// A thread of a CTA returns.
    pub fn returns(&mut self, t: u32, cta: usize) {
        self.ended[cta].returns(&self.threads[t as usize]);
    }

    /// What a CTA whose threads have returned did not wait for. `here`: whether a barrier is the CTA's.
    pub fn late(&self, cta: usize, here: impl Fn(usize) -> bool) -> Option<Late> {
        let Ended { known: [over, course], peers, sent, .. } = &self.ended[cta];
        let unawaited = |(bar, b): (usize, &BarClock)| {
            let copy = b.last_copy.filter(|copy| at(over, copy.agent) < copy.time)?;
            debug_assert_eq!(self.agents.get(copy.agent), Agent::Barrier(bar), "its own copies");
            here(bar).then(|| {
                let site = self.sites.get(copy.site);
                Late::Load { bar, phase: copy.time.wrapping_sub(1), site }
            })
        };
        let peer = || {
            let unheard = peers.iter().find(|(t, time, _)| at(course, *t) < *time);
            unheard.map(|p| Late::Peer(self.sites.get(p.2)))
        };
        let queued = || {
            let block = self.threads.len() / self.ended.len();
            let copies = &self.queued[cta * block..(cta + 1) * block];
            let copy = copies.iter().find(|copy| at(over, copy.agent) < copy.time)?;
            Some(Late::CpAsync(self.sites.get(copy.site)))
        };
        let sent = || {
            let &(agent, time, site) = sent.iter().find(|copy| at(over, copy.0) < copy.1)?;
            let Agent::Barrier(bar) = self.agents.get(agent) else { unreachable!("its agent") };
            Some(Late::Sent { bar, phase: time.wrapping_sub(1), site: self.sites.get(site) })
        };
        self.bars.iter().enumerate().find_map(unawaited).or_else(peer).or_else(sent).or_else(queued)
    }
}
