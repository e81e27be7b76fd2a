//! The warps of a cluster, and the rules that hold for the lanes of each.

use super::aligned::Aligned;
use super::meeting::Meeting;
use crate::cluster::shape::Shape;
use crate::finding::fault::Fault;
use crate::finding::rule::Rule;
use crate::types::loc::Loc;

/// A warp. Its parts are in this order, with what each `.aligned` instruction needs in front, for a model of
/// many warps is bound by the caches.
#[repr(C, align(64))]
pub(crate) struct Warp {
    /// Lanes that exist.
    pub lanes: u32,
    /// Lanes that have returned.
    exited: u32,
    aligned: Aligned,
    pub meeting: Meeting,
}

impl Warp {
    /// The warps of a cluster, CTA by CTA.
    pub fn all(shape: &Shape) -> Vec<Self> {
        let (block, per_cta) = (shape.block_threads(), shape.warps_per_cta());
        let warp = |w: u32| {
            let lanes = (block - w % per_cta * 32).min(32);
            Self {
                lanes: u32::MAX >> (32 - lanes),
                exited: 0,
                aligned: Aligned::new(),
                meeting: Meeting::new(),
            }
        };
        (0..shape.ctas() * per_cta).map(warp).collect()
    }

    /// Checks an `.aligned` instruction of a lane against the rest of the warp.
    pub fn execute(&mut self, lane: u32, name: &'static str, loc: Loc) -> Result<(), Fault> {
        self.aligned.execute(lane, (name, loc), self.lanes, self.exited)
    }

    /// The protocol state: which lanes have come how far.
    pub fn protocol(&self, f: &mut impl FnMut(u64)) {
        f(u64::from(self.exited));
        self.aligned.protocol(f);
        self.meeting.protocol(f);
    }

    /// A lane returns.
    pub fn exit(&mut self, lane: u32) {
        self.exited |= 1 << lane;
    }

    /// Whether all its lanes have returned.
    pub fn is_gone(&self) -> bool {
        self.exited == self.lanes
    }

    /// An `.aligned` instruction that a lane which returns has not executed, though others have.
    pub fn missed(&self, lane: u32) -> Option<(&'static str, Loc)> {
        self.aligned.missed(lane)
    }

    /// The lanes of a `bar.warp.sync` that lane `lane` executes.
    pub fn masked(&self, lane: u32, mask: u32) -> Result<u32, Fault> {
        let mask = mask & self.lanes;
        if mask >> lane & 1 == 1 {
            return Ok(mask);
        }
        let message = format!("bar.warp.sync {mask:#010x} executed by lane {lane}, not in it");
        Err(Fault::new(Rule::Diverged, message))
    }

    /// Lanes that have returned can't come.
    pub fn all_live(&self, mask: u32) -> Result<(), Fault> {
        if mask & self.exited == 0 {
            return Ok(());
        }
        let message = format!("bar.warp.sync {mask:#010x}: some of these lanes have returned");
        Err(Fault::new(Rule::Diverged, message))
    }
}

/// The threads of some lanes of a warp, whose first thread is `first`.
pub(crate) fn members(first: u32, lanes: u32) -> impl Iterator<Item = u32> + Clone {
    (0..32).filter(move |l| lanes >> l & 1 == 1).map(move |l| first + l)
}
