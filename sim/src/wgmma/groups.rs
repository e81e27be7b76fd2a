//! wgmma: four warps, one instruction; the last thread to come computes for all.
//!
//! The product is computed when the instruction is issued, from what shared memory holds then. The
//! operands count as being read until a `wait_group` retires the group: a write to them in between
//! is reported. Groups are the warp group's: the first thread whose wait covers one retires it.

use super::operand::{Major, Operand, OperandType};
use super::product::{self, Types};
use super::short::{self, Factors, is_short};
use crate::finding::fault::Fault;
use crate::finding::rule::Rule;
use crate::memory::shared::{Conflict, Shared};
use crate::types::loc::{Loc, same_line};
use std::collections::VecDeque;

/// An instruction's operands, the same in all threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mma {
    /// The descriptor of A and its major; None: A comes from registers.
    pub a: Option<(u64, Major)>,
    pub b: (u64, Major),
    pub n: u32,
    pub scale_d: bool,
    /// The elements of A and of B.
    pub types: Types,
}

/// The operands of an instruction that lie in shared memory.
pub(crate) type Operands = [Option<Operand>; 2];

impl Mma {
    /// What its descriptors describe: A, if it is in shared memory, and B.
    pub fn operands(&self) -> Result<Operands, Fault> {
        let a = self.a.map(|d| Operand::new(d, 64, self.types[0])).transpose()?;
        Ok([a, Some(Operand::new(self.b, self.n, self.types[1])?)])
    }
}

/// A wgmma that has not retired.
struct InFlight {
    operands: Operands,
    loc: Loc,
}

/// The state of a warp group.
pub(crate) struct WarpGroup {
    /// Threads that the CTA has for it: 128, or fewer.
    threads: u32,
    meet: Option<(Mma, Loc)>,
    come: u128,
    fragments: Vec<[u32; 4]>,
    /// A*B of the last instruction, row-major 64 by N. None where sums are short.
    product: Vec<f32>,
    /// The operands of the last instruction: 64 rows of A; B by rows along K.
    a: Vec<f32>,
    b: Vec<f32>,
    /// The exponents of A and of B where sums are short.
    factors: [Factors; 2],
    open: Vec<InFlight>,
    committed: VecDeque<Vec<InFlight>>,
    /// Groups that some thread has committed, and those of each thread.
    commits: u64,
    by_thread: Vec<u64>,
}

impl WarpGroup {
    /// The warp groups of a CTA.
    pub fn all(block_threads: u32) -> Vec<Self> {
        (0..block_threads.div_ceil(128)).map(|wg| Self::new(block_threads - wg * 128)).collect()
    }

    fn new(threads: u32) -> Self {
        let threads = threads.min(128);
        Self {
            threads,
            meet: None,
            come: 0,
            fragments: Vec::new(),
            product: Vec::new(),
            a: Vec::new(),
            b: Vec::new(),
            factors: [Factors::default(), Factors::default()],
            open: Vec::new(),
            committed: VecDeque::new(),
            commits: 0,
            by_thread: vec![0; threads as usize],
        }
    }

    /// The wgmma in flight that reads an address.
    pub fn reads(&self, addr: u32) -> Option<Loc> {
        self.in_flight_all()
            .find(|f| f.operands.iter().flatten().any(|o| o.covers(addr)))
            .map(|f| f.loc)
    }

    /// Where the oldest wgmma in flight was issued.
    pub fn in_flight(&self) -> Option<Loc> {
        self.in_flight_all().next().map(|f| f.loc)
    }

    fn in_flight_all(&self) -> impl Iterator<Item = &InFlight> {
        self.committed.iter().flatten().chain(&self.open)
    }

    /// Thread `index` of the CTA comes to an instruction, with its part of A if A is in registers;
    /// whether it is the last, after which [`Self::multiply`] follows.
    pub fn come(
        &mut self,
        index: u32,
        mma: Mma,
        loc: Loc,
        fragment: [u32; 4],
    ) -> Result<bool, Fault> {
        let broken = |message: String| Fault::new(Rule::BrokenWarpgroup, message);
        if self.threads < 128 {
            let wg = index / 128;
            return Err(broken(format!("warp group {wg} has fewer than four warps")));
        }
        let member = (index % 128) as usize;
        let commits = self.by_thread[member];
        if commits != self.commits {
            return Err(broken(format!(
                "a thread of warp {} has committed {commits} wgmma groups where its warp group has \
                 committed {}",
                index / 32,
                self.commits
            )));
        }
        match self.meet {
            Some((other, at)) if other != mma || !same_line(at, loc) => {
                return Err(broken(format!(
                    "warp {} executes {mma:x?} where others of its warp group executed {other:x?}",
                    index / 32
                ))
                .against("the other wgmma", at));
            }
            Some(_) => {}
            None => {
                self.meet = Some((mma, loc));
                self.fragments.resize(128, [0; 4]);
            }
        }
        self.fragments[member] = fragment;
        self.come |= 1 << member;
        let all = self.come == u128::MAX;
        if all {
            self.come = 0;
            self.meet = None;
        }
        Ok(all)
    }

    /// Reads the operands, which counts until the group retires.
    pub fn read(
        &mut self,
        smem: &mut Shared,
        mma: Mma,
    ) -> Result<Result<Operands, Conflict>, Fault> {
        let [a, b] = mma.operands()?;
        let mut conflict = None;
        let (n, k) = (mma.n as usize, mma.types[0].k() as usize);
        self.a.resize(64 * k, 0.0);
        self.b.resize(k * n, 0.0);
        if a.is_none() {
            product::from_fragments(&self.fragments, mma.types[0], &mut self.a);
        }
        // Distances from an element to the next along M or N, and along K.
        let of_a = (&a, mma.types[0], &mut self.a, [k, 1]);
        let of_b = (&b, mma.types[1], &mut self.b, [1, n]);
        for (o, dtype, out, [along_m_or_n, along_k]) in [of_a, of_b] {
            let Some(o) = o else { continue };
            let (decode, elements) = (product::decoder(dtype), k / 2);
            let step = if o.major() == Major::K { along_k } else { along_m_or_n };
            o.for_each_chunk(|row, k, addr| match smem.hold_chunk(addr) {
                Ok(bytes) => {
                    let at = row as usize * along_m_or_n + k as usize * along_k;
                    product::spread(decode, bytes, &mut out[at..], step, elements);
                }
                Err(c) => conflict = conflict.or(Some(c)),
            });
        }
        Ok(conflict.map_or(Ok([a, b]), Err))
    }

    /// Computes A*B of the operands that were read last; the instruction joins the open group.
    pub fn multiply(&mut self, operands: Operands, mma: Mma, loc: Loc) {
        let n = mma.n as usize;
        self.open.push(InFlight { operands, loc });
        if is_short(mma.types[0]) {
            // Short sums depend on what they are added to.
            let [a, b] = &mut self.factors;
            a.take(&self.a, mma.types[0]);
            b.take(&self.b, mma.types[1]);
        } else {
            self.product.resize(64 * n, 0.0);
            product::product(&self.a, &self.b, n, &mut self.product);
        }
    }

    /// Adds the product of the last instruction to the accumulators of the threads from one on.
    pub fn add(&self, mma: Mma, first: usize, values: &mut [u32]) {
        let (n, scale_d) = (mma.n as usize, mma.scale_d);
        match mma.types[0] {
            OperandType::E4m3 | OperandType::E5m2 => {
                let [a, b] = [(&self.a[..], &self.factors[0]), (&self.b[..], &self.factors[1])];
                short::add(a, b, n, scale_d, first, values);
            }
            OperandType::S8 => product::add_s32(&self.product, n, scale_d, first, values),
            _ => product::add(&self.product, n, scale_d, first, values),
        }
    }

    /// The protocol state: the groups in flight, and who has committed them.
    pub fn protocol(&self, f: &mut impl FnMut(u64)) {
        f(self.come as u64);
        f((self.come >> 64) as u64);
        f(self.open.len() as u64);
        self.committed.iter().for_each(|group| f(group.len() as u64));
        let behind = self.by_thread.iter().map(|commits| self.commits - commits);
        behind.enumerate().filter(|b| b.1 > 0).for_each(|(t, n)| f((t as u64) << 32 | n));
    }

    /// Number of the open group, from 1.
    pub fn open_group(&self) -> u64 {
        self.commits + 1
    }

    /// `wgmma.commit_group` by thread `index` of the CTA; whether it is the first to commit the group.
    pub fn commit(&mut self, index: u32) -> bool {
        let commits = &mut self.by_thread[(index % 128) as usize];
        *commits += 1;
        if *commits <= self.commits {
            return false;
        }
        self.commits = *commits;
        self.committed.push_back(std::mem::take(&mut self.open));
        true
    }

    /// `wgmma.wait_group`: retires all but the last `left` groups that thread `index` of the CTA has
    /// committed, and calls `over` for each 16 bytes that are no longer read. Gives the number of the
    /// last group that the wait covers.
    pub fn wait(&mut self, index: u32, left: u32, mut over: impl FnMut(u32)) -> u64 {
        let retired = self.by_thread[(index % 128) as usize].saturating_sub(u64::from(left));
        while self.commits - (self.committed.len() as u64) < retired {
            for f in self.committed.pop_front().into_iter().flatten() {
                for o in f.operands.iter().flatten() {
                    o.for_each_chunk(|_, _, addr| over(addr));
                }
            }
        }
        retired
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::grid::SMEM_BASE;
    use std::panic::Location;

    fn mma() -> Mma {
        let (start, leading) = (u64::from(SMEM_BASE >> 4), 128 >> 4);
        let b = start | leading << 16;
        let types = [OperandType::Bf16; 2];
        Mma { a: None, b: (b, Major::K), n: 8, scale_d: false, types }
    }

    #[test]
    fn operands_are_held_until_a_wait_covers_them() {
        let mut smem = Shared::new(256, false);
        let mut wg = WarpGroup::new(128);
        let here = Location::caller();
        for t in 0..128 {
            assert_eq!(wg.come(t, mma(), here, [0; 4]).unwrap(), t == 127);
        }
        let operands = wg.read(&mut smem, mma()).unwrap().unwrap();
        wg.multiply(operands, mma(), here);
        assert_eq!((wg.reads(SMEM_BASE + 255), wg.reads(SMEM_BASE + 256)), (Some(here), None));
        assert!(wg.commit(0) && !wg.commit(1));
        assert_eq!(wg.wait(0, 1, |_| panic!("the group may be pending")), 0);
        let mut over = 0;
        assert_eq!(wg.wait(1, 0, |_| over += 1), 1);
        assert_eq!((over, wg.in_flight()), (16, None));
    }

    #[test]
    fn the_warps_of_a_group_execute_the_same() {
        let here = Location::caller();
        let mut wg = WarpGroup::new(128);
        wg.come(0, mma(), here, [0; 4]).unwrap();
        let other = Mma { n: 16, ..mma() };
        assert_eq!(wg.come(32, other, here, [0; 4]).unwrap_err().rule, Rule::BrokenWarpgroup);
        wg.commit(5);
        assert_eq!(wg.come(6, mma(), here, [0; 4]).unwrap_err().rule, Rule::BrokenWarpgroup);
        let mut half = WarpGroup::new(64);
        assert_eq!(half.come(0, mma(), here, [0; 4]).unwrap_err().rule, Rule::BrokenWarpgroup);
    }
}
