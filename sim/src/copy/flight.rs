//! A copy in flight: what it moves, from where, and to where.

use super::boxes::{self, Combine};
use crate::types::landing::Landing;
use crate::types::loc::Loc;
use crate::types::tensor_map::{DataType, TensorMapDesc};

/// A copy that has not landed.
pub(crate) struct Copy {
    pub issuer: u32,
    /// Its agent in a guided run, and its priority in one by priorities.
    pub agent: u32,
    pub priority: u64,
    pub loc: Loc,
    pub kind: Kind,
    /// When, if the cluster keeps time.
    pub landing: Landing,
}

/// What a copy moves, and in which step it is.
pub(crate) enum Kind {
    /// A tensor's box to one CTA; a multicast is one per CTA.
    TensorLoad { map: Box<TensorMapDesc>, coords: [i32; 5], to: Target },
    /// A run of global bytes to shared memory.
    RunLoad { src: u64, to: Target },
    /// The answer of `clusterlaunchcontrol.try_cancel`.
    Answer { words: [u32; 4], to: Target },
    /// Shared memory to a CTA of the cluster.
    Peer { cta: usize, src: u32, to: Target },
    /// A store before it has read its source.
    StoreRead { group: u64, cta: usize, src: u32, bytes: u32, sink: Sink },
    /// A store that has read its source and not written.
    StoreWrite { group: u64, src: u32, data: Vec<u8>, sink: Sink },
    /// The oldest `cp.async` of the issuer.
    CpAsync,
    /// The arrival of a `tcgen05.commit`, which ends the multiplications of the issuer up to this number.
    Commit { cta: usize, bar: usize, commit: u64 },
}

/// Where a load lands, and on which barrier it completes.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub cta: usize,
    pub dst: u32,
    pub bytes: u32,
    pub bar: usize,
    /// The number of the line that issued it.
    pub site: u32,
}

/// Where a store goes.
pub(crate) enum Sink {
    Tensor { map: Box<TensorMapDesc>, coords: [i32; 5], combine: Combine },
    Run { dst: u64, combine: Combine, dtype: DataType },
}

impl Sink {
    /// An address of the allocation that it lies in, if it lies in one.
    pub fn address(&self) -> u64 {
        match self {
            Self::Tensor { map, coords, .. } => boxes::first(map, *coords).unwrap_or(map.addr),
            Self::Run { dst, .. } => *dst,
        }
    }

    /// What it does with an element.
    pub fn combine(&self) -> Combine {
        let (Self::Tensor { combine, .. } | Self::Run { combine, .. }) = self;
        *combine
    }

    /// Calls `f` with the runs of global memory that `bytes` bytes are written to.
    pub fn spans(&self, bytes: u32, f: &mut dyn FnMut(u64, u64)) {
        match self {
            Self::Tensor { map, coords, combine } => {
                boxes::spans(map, *coords, *combine == Combine::Store, f);
            }
            Self::Run { dst, .. } => f(*dst, u64::from(bytes)),
        }
    }
}

impl Copy {
    /// Whether it has not read a byte of shared memory that it will read.
    pub fn reads(&self, in_cta: usize, addr: u32) -> bool {
        match self.kind {
            Kind::StoreRead { cta, src, bytes, .. }
            | Kind::Peer { cta, src, to: Target { bytes, .. } } => {
                cta == in_cta && (src..src + bytes).contains(&addr)
            }
            _ => false,
        }
    }

    /// Where it lands, if that is in shared memory, and its bytes complete on an mbarrier.
    pub fn target(&self) -> Option<Target> {
        match self.kind {
            Kind::TensorLoad { to, .. }
            | Kind::RunLoad { to, .. }
            | Kind::Answer { to, .. }
            | Kind::Peer { to, .. } => Some(to),
            _ => None,
        }
    }

    /// Whether it will write a byte of shared memory.
    pub fn writes(&self, in_cta: usize, addr: u32) -> bool {
        let there = |to: Target| to.cta == in_cta && (to.dst..to.dst + to.bytes).contains(&addr);
        self.target().is_some_and(there)
    }

    /// The mbarrier on which it completes.
    pub fn bar(&self) -> Option<usize> {
        match self.kind {
            Kind::Commit { bar, .. } => Some(bar),
            _ => self.target().map(|to| to.bar),
        }
    }

    /// Why a CTA may not exit while the copy is in flight: what it is.
    pub fn needs(&self, in_cta: usize) -> Option<&'static str> {
        let (needs, what) = match self.kind {
            Kind::TensorLoad { to, .. } | Kind::RunLoad { to, .. } | Kind::Answer { to, .. } => {
                (to.cta == in_cta, "a load in flight into the CTA's shared memory")
            }
            Kind::Peer { cta, to, .. } => {
                (cta == in_cta || to.cta == in_cta, "a copy between CTAs in flight")
            }
            Kind::StoreRead { cta, .. } => {
                (cta == in_cta, "a store in flight out of the CTA's shared memory")
            }
            Kind::Commit { cta, .. } => {
                (cta == in_cta, "a tcgen05.commit in flight, with its multiplications")
            }
            Kind::StoreWrite { .. } | Kind::CpAsync => (false, ""),
        };
        needs.then_some(what)
    }
}
