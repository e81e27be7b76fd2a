//! Pairs of CTAs: what `.cta_group::2` asks of both, and the warps that wait for the other CTA's.

use crate::cluster::ctas::Ctas;
use crate::finding::fault::Fault;
use crate::finding::report::SourceLine;
use crate::finding::rule::Rule;
use crate::types::loc::Loc;

/// What a warp of each CTA of a pair does together with one of the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Together {
    /// The word to which the address is written, and the columns.
    Alloc { to: u32, columns: u32 },
    /// The address and the columns.
    Free { address: u32, columns: u32 },
}

impl Together {
    /// As PTX writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Alloc { .. } => "tcgen05.alloc",
            Self::Free { .. } => "tcgen05.dealloc",
        }
    }

    /// What both warps must say alike.
    fn same(self) -> (bool, u32, u32) {
        match self {
            Self::Alloc { columns, .. } => (true, 0, columns),
            Self::Free { address, columns } => (false, address, columns),
        }
    }
}

/// The warp of one CTA that waits for the other's.
#[derive(Clone, Copy)]
pub(crate) struct Half {
    /// A thread of it, and its number.
    pub t: u32,
    pub warp: usize,
    pub cta: usize,
    pub what: Together,
    pub loc: Loc,
}

/// The pairs of a cluster.
#[derive(Default)]
pub(crate) struct Pairs {
    /// By pair: of each at most one half waits.
    waiting: Vec<Half>,
    /// The `.cta_group` of the kernel, and where it was first said.
    group: Option<(bool, Loc)>,
}

fn wrong(message: String) -> Fault {
    Fault::new(Rule::TensorPair, message)
}

/// The other CTA of a pair. It must run.
pub(crate) fn peer(ctas: &Ctas, cta: usize, name: &str) -> Result<usize, Fault> {
    let peer = cta ^ 1;
    if peer >= ctas.len() {
        return Err(wrong(format!(
            "{name} with .cta_group::2 by CTA {cta} of a cluster of {}: a pair is two CTAs whose ranks differ in the last bit only",
            ctas.len()
        )));
    }
    if !ctas.runs(peer) {
        let how = if ctas.lives(peer) { "has not started" } else { "has exited" };
        return Err(wrong(format!(
            "{name} with .cta_group::2 by CTA {cta}, of whose pair CTA {peer} {how}"
        )));
    }
    Ok(peer)
}

impl Pairs {
    /// An instruction says its `.cta_group`: all of a kernel say the same.
    pub fn group(&mut self, pair: bool, name: &str, loc: Loc) -> Result<(), Fault> {
        let (first, at) = *self.group.get_or_insert((pair, loc));
        if first == pair {
            return Ok(());
        }
        let message = format!(
            "{name} with .cta_group::{} in a kernel that has said .cta_group::{}: all tcgen05 instructions of a kernel say the same",
            1 + u32::from(pair),
            1 + u32::from(first)
        );
        Err(wrong(message).against("the first", at))
    }

    /// A warp comes: gives the other CTA's if that has come before, and otherwise keeps this one.
    pub fn come(&mut self, half: Half) -> Result<Option<Half>, Fault> {
        let Some(i) = self.waiting.iter().position(|h| h.cta / 2 == half.cta / 2) else {
            self.waiting.push(half);
            return Ok(None);
        };
        let other = self.waiting[i];
        if other.cta == half.cta || other.what.same() != half.what.same() {
            let message = format!(
                "CTA {} of a pair executes {:?} and CTA {} executes {:?}: a warp of each executes the same",
                other.cta, other.what, half.cta, half.what
            );
            return Err(Fault::new(Rule::TensorAlloc, message).against("the other", other.loc));
        }
        Ok(Some(self.waiting.swap_remove(i)))
    }

    /// The protocol state: who waits for the other half, and the kernel's `.cta_group`.
    pub fn protocol(&self, f: &mut impl FnMut(u64)) {
        f(match self.group {
            None => 0,
            Some((pair, _)) => 1 + u64::from(pair),
        });
        let mut waiting: Vec<_> = self.waiting.iter().collect();
        waiting.sort_unstable_by_key(|half| half.cta);
        for half in waiting {
            let (alloc, address, columns) = half.what.same();
            f((half.cta as u64) << 32 | u64::from(half.t));
            f(u64::from(alloc) << 63 | u64::from(address) << 16 | u64::from(columns));
        }
    }

    /// A CTA exits: the half of its pair that waits for it.
    pub fn left(&self, cta: usize) -> Option<(Fault, Loc)> {
        let half = self.waiting.iter().find(|h| h.cta == cta ^ 1)?;
        let message = format!(
            "CTA {cta} returns, and CTA {} of its pair waits for it ({}, at {})",
            half.cta,
            half.what.name(),
            SourceLine::from(half.loc)
        );
        Some((wrong(message), half.loc))
    }
}
