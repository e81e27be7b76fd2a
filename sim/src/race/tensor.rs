//! Tensor memory: who accessed each word last, and what orders the next access.
//!
//! An access is ordered after another one if its thread has synchronised with what ends that one: the phase of a commit's
//! mbarrier, or `tcgen05.wait::ld` (`wait::st`) and `tcgen05.fence::before_thread_sync` by its thread. And a
//! `tcgen05.fence::after_thread_sync` must stand between the synchronisation and the access. So each thread has a second
//! vector: what it knew at its last such fence. Multiplications of one thread need no order among themselves.

use super::accesses::Found;
use super::agents::Agent;
use super::cells::{Touch, Word};
use super::judge::{By, Way};
use super::shadow::Access;
use super::shadow::Clash;
use super::state::Race;
use super::times::{Lane, Times, at};
use crate::cluster::thread::Thread;
use crate::memory::shared::CHUNK;
use crate::tensor::memory::{COLUMNS, LANES};
use crate::types::grid::SMEM_BASE;
use std::ops::Range;

/// What is missing between two accesses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lack {
    /// The words are written by nobody.
    Nothing,
    /// The end of the first is not known.
    Order,
    /// `fence::before_thread_sync` by the first's thread.
    Before,
    /// `fence::after_thread_sync` by the second's.
    After,
}

/// Two accesses that nothing orders, or a read of what nobody wrote.
#[derive(Debug)]
pub(crate) struct TensorClash {
    pub lack: Lack,
    pub lane: u32,
    pub column: u32,
    /// The older one: by which thread, with what, where, and whether it wrote. Not of [`Lack::Nothing`].
    pub old: Option<super::sites::Site>,
    pub old_writes: bool,
    /// It is a multiplication, which a commit ends.
    pub old_multiplies: bool,
}

/// How a range of words is accessed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Uses {
    Load,
    Store,
    /// A multiplication that replaces, or adds to, what is there.
    Multiply {
        adds: bool,
    },
    /// A copy from shared memory.
    Copy,
    /// What a multiplication reads: A, or factors.
    Operand,
    /// `tcgen05.dealloc`.
    Free,
}

impl Uses {
    /// Whether it is an instruction of those that are executed in the order of their thread.
    fn in_order(self) -> bool {
        matches!(self, Self::Multiply { .. } | Self::Copy | Self::Operand)
    }
}

impl Race {
    /// Columns are allocated: nobody has accessed them.
    pub fn tensor_fresh(&mut self, cta: usize, columns: &Range<u32>) {
        let words = &mut self.tensor.words[cta];
        words.resize((LANES * COLUMNS) as usize, Word::default());
        words[(columns.start * LANES) as usize..(columns.end * LANES) as usize]
            .fill(Word::default());
    }

    /// `tcgen05.fence::before_thread_sync`; `settled`: the thread has waited for its loads and stores.
    pub fn tensor_before(&mut self, t: u32, settled: bool) {
        if settled {
            self.tensor.fences[t as usize] += 1;
            let time = u64::from(self.tensor.fences[t as usize]);
            self.learns(t, Agent::TensorMoves(t), time);
        }
    }

    /// `tcgen05.fence::after_thread_sync`.
    pub fn tensor_after(&mut self, t: u32) {
        self.tensor.seen[t as usize] =
            Times::clone(&self.threads[t as usize].base[Lane::Ordered as usize]);
    }

    /// A thread commits to a barrier. When that completes, so have the loads of the operands that the thread had waited
    /// for: who waits may load over them.
    pub fn umma_commits(&mut self, t: u32, bar: usize) {
        self.bars[bar].follows(&self.threads[t as usize]);
        self.bars[bar].follows_expects(&self.threads[t as usize]);
    }

    /// The multiplications of a thread up to a commit complete, and their arrival on a barrier follows.
    pub fn umma_completes(&mut self, t: u32, bar: usize, commit: u64) {
        let agent = self.agents.number(Agent::Umma(t));
        self.bars[bar].told(agent, commit as u32);
    }

    /// What a touch lacks for a thread to follow it.
    fn lack(&self, t: u32, old: Touch, uses: Uses) -> Option<Lack> {
        let Access { agent, time, .. } = old.access;
        let knows = |agent, time| self.threads[t as usize].knows(Lane::Ordered, agent, time);
        let whose = self.agents.get(agent);
        match whose {
            // In the order of their issue. Moves of the thread itself: its waits, which are counted elsewhere.
            Agent::Umma(o) if o == t && uses.in_order() => return None,
            Agent::TensorMoves(o) if o == t => return None,
            _ => {}
        }
        if uses == Uses::Free {
            // It is no asynchronous instruction: the threads' order is enough.
            let over = match whose {
                Agent::TensorMoves(o) => knows(o, old.own),
                _ => knows(agent, time),
            };
            return (!over).then_some(Lack::Order);
        }
        if at(&self.tensor.seen[t as usize], agent) >= time {
            return None;
        }
        if knows(agent, time) {
            return Some(Lack::After);
        }
        Some(match whose {
            Agent::TensorMoves(o) if knows(o, old.own) => Lack::Before,
            _ => Lack::Order,
        })
    }

    /// A thread accesses words of a CTA's tensor memory; `commit` is the number of the commit that will cover a multiplication.
    pub fn tensor(
        &mut self,
        (thread, cta): (&Thread, usize),
        (lanes, columns): (Range<u32>, Range<u32>),
        uses: Uses,
        commit: u64,
    ) -> Result<(), TensorClash> {
        let t = thread.id;
        let site = self.sites.at(thread, false);
        let multiplies = uses.in_order();
        let kind = if multiplies { Agent::Umma(t) } else { Agent::TensorMoves(t) };
        let agent = self.agents.number(kind);
        let time = if multiplies { commit as u32 } else { self.tensor.fences[t as usize] + 1 };
        let own = if multiplies { 0 } else { self.threads[t as usize].time };
        let new = Touch { access: Access { agent, time, site }, own };
        let mut words = std::mem::take(&mut self.tensor.words[cta]);
        let mut good = [Touch::default(); 3];
        let mut result = Ok(());
        'all: for column in columns {
            for lane in lanes.clone() {
                let word = &mut words[(column * LANES + lane) as usize];
                let clash = |lack, old: Option<Touch>, old_writes| TensorClash {
                    lack,
                    lane,
                    column,
                    old: old.map(|o: Touch| self.sites.get(o.access.site)),
                    old_writes,
                    old_multiplies: old
                        .is_some_and(|o| matches!(self.agents.get(o.access.agent), Agent::Umma(_))),
                };
                let reads =
                    matches!(uses, Uses::Load | Uses::Operand | Uses::Multiply { adds: true });
                if reads && word.write.access.time == 0 {
                    result = Err(clash(Lack::Nothing, None, true));
                    break 'all;
                }
                let older = if matches!(uses, Uses::Load | Uses::Operand) { 1 } else { 3 };
                let all = [word.write, word.reads[0], word.reads[1]];
                for (i, old) in all.into_iter().take(older).enumerate() {
                    if old.access.time == 0 || old == good[i] {
                        continue;
                    }
                    if let Some(lack) = self.lack(t, old, uses) {
                        result = Err(clash(lack, Some(old), i == 0));
                        break 'all;
                    }
                    good[i] = old;
                }
                match uses {
                    Uses::Load | Uses::Operand => {
                        let slot = usize::from(
                            word.reads[0].access.time != 0
                                && word.reads[0].access.agent != new.access.agent,
                        );
                        word.reads[slot] = new;
                    }
                    Uses::Free => {}
                    _ => *word = Word { write: new, ..Word::default() },
                }
            }
        }
        self.tensor.words[cta] = words;
        result
    }

    /// The operands of a multiplication in a CTA's shared memory are read, which `commit` will end.
    pub fn umma(
        &mut self,
        (thread, cta): (&Thread, usize),
        chunks: &[u32],
        commit: u64,
    ) -> Result<(), Found> {
        let t = thread.id;
        let site = self.sites.at(thread, false);
        let agent = self.agents.number(Agent::Umma(t));
        let new = Access { agent, time: commit as u32, site };
        let who = &self.threads[t as usize];
        let (way, agents, sites) = (Way::AsyncRead, &self.agents, &self.sites);
        let judge = By { who, way, strong: false, agents, sites };
        let shadow = &mut self.shared[cta];
        let (mut good, mut result) = (Access::default(), Ok(()));
        for &addr in chunks {
            let c = ((addr - SMEM_BASE) / CHUNK) as usize;
            if let Err(clash) = shadow.read_chunk(c, new, &judge, &mut good)
                && result.is_ok()
            {
                let clash = Clash { rule: judge.rule(clash.old, true), ..clash };
                result = Err(Found::Shared { cta, clash, write: false });
            }
        }
        result
    }
}
