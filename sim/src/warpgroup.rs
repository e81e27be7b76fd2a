//! wgmma: four warps, one instruction; the last thread to come computes for all.
//!
//! The product is computed when the instruction is issued, from what shared memory holds then. The
//! operands count as being read until a `wait_group` retires the group: a write to them in between
//! is reported. Groups are the warp group's: the first thread whose wait covers one retires it.

use crate::Rule;
use crate::cluster::Cluster;
use crate::explore::order::Key;
use crate::fault::Fault;
use crate::operand::{self, Operand};
use crate::ops::wgmma::OperandType;
use crate::race::Agent;
use crate::thread::{Loc, Wait, Wake};
use std::collections::VecDeque;
use std::task::Poll;

/// An instruction's operands, the same in all threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mma {
    /// None: A comes from registers.
    pub a: Option<u64>,
    pub b: u64,
    pub n: u32,
    pub scale_d: bool,
    pub dtype: OperandType,
}

/// A wgmma that has not retired.
struct InFlight {
    operands: [Option<Operand>; 2],
    loc: Loc,
}

/// The state of a warp group.
#[derive(Default)]
pub(crate) struct Warpgroup {
    meet: Option<(Mma, Loc)>,
    pub come: u128,
    fragments: Vec<[u32; 4]>,
    /// A*B of the last instruction, row-major 64 by N.
    product: Vec<f32>,
    a: Vec<f32>,
    b: Vec<f32>,
    open: Vec<InFlight>,
    committed: VecDeque<Vec<InFlight>>,
    commits: u64,
}

impl Warpgroup {
    /// The wgmma in flight that reads an address.
    pub fn reads(&self, addr: u32) -> Option<Loc> {
        self.committed
            .iter()
            .flatten()
            .chain(&self.open)
            .find(|f| f.operands.iter().flatten().any(|o| o.covers(addr)))
            .map(|f| f.loc)
    }

    /// Where the oldest wgmma in flight was issued.
    pub fn in_flight(&self) -> Option<Loc> {
        self.committed.iter().flatten().chain(&self.open).next().map(|f| f.loc)
    }
}

impl Cluster {
    /// One `wgmma.mma_async`: `d` is the thread's part of D, `regs` that of A if A is in registers.
    pub fn mma(
        &mut self,
        t: u32,
        d: &mut [f32],
        mma: Mma,
        regs: [u32; 4],
    ) -> Result<Poll<()>, Fault> {
        let (cta, index) = {
            let thread = &self.threads[t as usize];
            (thread.cta, thread.index)
        };
        let (wg, member) = ((index / 128) as usize, index % 128);
        if let Wake::Go(_) = self.woken(t) {
            self.ctas[cta].warpgroups[wg].deliver(d, mma, member);
            return Ok(Poll::Ready(()));
        }
        self.aligned(t, "wgmma.mma_async")?;
        let broken = |message: String| Fault::new(Rule::BrokenWarpgroup, message);
        if (wg as u32 + 1) * 128 > self.block_threads() {
            return Err(broken(format!("warp group {wg} has fewer than four warps")));
        }
        let loc = self.threads[t as usize].loc.expect("the instruction has begun");
        let commits = self.threads[t as usize].wgmma_commits;
        let group = &mut self.ctas[cta].warpgroups[wg];
        if commits != group.commits {
            return Err(broken(format!(
                "a thread of warp {} has committed {commits} wgmma groups where its warp group has \
                 committed {}",
                index / 32,
                group.commits
            )));
        }
        match group.meet {
            Some((other, at)) if other != mma || !(std::ptr::eq(at, loc) || *at == *loc) => {
                return Err(broken(format!(
                    "warp {} executes {mma:x?} where others of its warp group executed {other:x?}",
                    index / 32
                ))
                .against("the other wgmma", at));
            }
            Some(_) => {}
            None => {
                group.meet = Some((mma, loc));
                group.fragments.resize(128, [0; 4]);
            }
        }
        group.fragments[member as usize] = regs;
        group.come |= 1 << member;
        let all = group.come == u128::MAX;
        self.came(Key::Warpgroup(cta, wg), all);
        let group = &mut self.ctas[cta].warpgroups[wg];
        if !all {
            self.sleep(t, Wait::Warpgroup);
            return Ok(Poll::Pending);
        }
        group.come = 0;
        group.meet = None;
        self.multiply(t, cta, wg, mma, loc)?;
        self.stats.wgmmas += 1;
        let first = t - member;
        self.timed(|time| {
            time.meets(t, first..first + 128);
            time.wgmma(t, loc, wg, mma.n);
        });
        for other in (first..first + 128).filter(|&o| o != t) {
            self.wake(other, 0);
        }
        self.ctas[cta].warpgroups[wg].deliver(d, mma, member);
        Ok(Poll::Ready(()))
    }

    /// Reads the operands, holds them, and computes A*B.
    fn multiply(&mut self, t: u32, cta: usize, wg: usize, mma: Mma, loc: Loc) -> Result<(), Fault> {
        let a = mma.a.map(|d| Operand::new(d, 64)).transpose()?;
        let b = Operand::new(mma.b, mma.n)?;
        let block = &mut self.ctas[cta];
        let group = &mut block.warpgroups[wg];
        let decode = operand::decoder(mma.dtype);
        let mut conflict = None;
        group.a.resize(64 * 16, 0.0);
        group.b.resize(16 * mma.n as usize, 0.0);
        match &a {
            Some(a) => a.for_each_chunk(|row, k, addr| match block.smem.hold_chunk(addr) {
                Ok(bytes) => {
                    let at = (row * 16 + k) as usize;
                    decode(bytes, &mut group.a[at..at + 8]);
                }
                Err(c) => conflict = conflict.or(Some(c)),
            }),
            None => operand::from_fragments(&group.fragments, decode, &mut group.a),
        }
        let n = mma.n as usize;
        b.for_each_chunk(|row, k, addr| match block.smem.hold_chunk(addr) {
            Ok(bytes) => {
                let mut column = [0.0; 8];
                decode(bytes, &mut column);
                for (i, x) in column.into_iter().enumerate() {
                    group.b[(k as usize + i) * n + row as usize] = x;
                }
            }
            Err(c) => conflict = conflict.or(Some(c)),
        });
        if let Some(c) = conflict {
            return Err(self.conflict(cta, c));
        }
        if let Some(guide) = &mut self.guide {
            for o in a.iter().chain([&b]) {
                o.for_each_chunk(|_, _, addr| guide.touch(cta as u64, u64::from(addr), 16, false));
            }
        }
        let number = group.commits + 1;
        self.race_wgmma(t, cta, wg, &[a, Some(b)], number)?;
        let group = &mut self.ctas[cta].warpgroups[wg];
        group.open.push(InFlight { operands: [a, Some(b)], loc });
        group.product.resize(64 * n, 0.0);
        operand::product(&group.a, &group.b, n, &mut group.product);
        Ok(())
    }

    /// `wgmma.commit_group`.
    pub fn wgmma_commit(&mut self, t: u32) -> Result<(), Fault> {
        self.aligned(t, "wgmma.commit_group")?;
        let thread = &mut self.threads[t as usize];
        let wg = (thread.index / 128) as usize;
        thread.wgmma_commits += 1;
        let (cta, commits) = (thread.cta, thread.wgmma_commits);
        let group = &mut self.ctas[cta].warpgroups[wg];
        if commits > group.commits {
            group.commits = commits;
            let open = std::mem::take(&mut group.open);
            group.committed.push_back(open);
            self.timed(|time| time.wgmma_commit(t, wg));
        }
        Ok(())
    }

    /// `wgmma.wait_group`: retires all but the last `left` groups that this thread committed.
    pub fn wgmma_wait(&mut self, t: u32, left: u32) -> Result<(), Fault> {
        self.aligned(t, "wgmma.wait_group")?;
        let thread = &self.threads[t as usize];
        let (cta, wg) = (thread.cta, (thread.index / 128) as usize);
        let retired = thread.wgmma_commits.saturating_sub(u64::from(left));
        let block = &mut self.ctas[cta];
        let group = &mut block.warpgroups[wg];
        while group.commits - (group.committed.len() as u64) < retired {
            for f in group.committed.pop_front().into_iter().flatten() {
                for o in f.operands.iter().flatten() {
                    o.for_each_chunk(|_, _, addr| {
                        block.smem.end_read(addr, 16);
                        if let Some(guide) = &mut self.guide {
                            guide.touch(cta as u64, u64::from(addr), 16, false);
                        }
                    });
                }
            }
        }
        self.edge(|race| race.learns(t, Agent::Warpgroup { cta, wg }, retired));
        let loc = self.threads[t as usize].loc;
        self.timed(|time| time.wgmma_waited(t, loc, wg, retired, left));
        Ok(())
    }
}

impl Warpgroup {
    /// Adds the thread's part of the product to its registers.
    ///
    /// PTX manual, *wgmma D fragments*: thread t has rows `16 (t / 32) + (t % 32) / 4` and + 8;
    /// register `4 j + 2 h + e` is row half h, column `8 j + 2 (t % 4) + e`.
    fn deliver(&self, d: &mut [f32], mma: Mma, member: u32) {
        let n = mma.n as usize;
        let row = (member / 32 * 16 + member % 32 / 4) as usize;
        let col = (member % 4 * 2) as usize;
        let top = &self.product[row * n + col..][..n - col];
        let bottom = &self.product[(row + 8) * n + col..][..n - col];
        for (j, d) in d.chunks_exact_mut(4).enumerate() {
            let part = [top[8 * j], top[8 * j + 1], bottom[8 * j], bottom[8 * j + 1]];
            for (d, p) in d.iter_mut().zip(part) {
                *d = if mma.scale_d { *d + p } else { p };
            }
        }
    }
}
