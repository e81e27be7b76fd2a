//! `OrderedSequence`: warp groups that take turns.
//!
//! Invariant: at most one warp group is in a section at a time, and the groups enter each section in order.
//!
//! In each round, the warp groups of a role go through `DEPTH` sections. Group 0 enters a section first. When a
//! group passes its turn on, the next group enters. Two warp groups with depth 2 are CUTLASS's ping-pong: while
//! one is in the main loop, the other is in the epilogue.
//!
//! ```text
//! section 0   group 0 ──► group 1 ──► group 0 ──► …
//! section 1             group 0 ──► group 1 ──► …
//! ```
//!
//! A turn is a token. Waiting returns it, and passing it on consumes it. So a group can pass on only a turn that it
//! has, and only once. The next group enters when all warps of the previous group
//! have passed the turn on. No warp is then still in the section or still waiting for an old phase.
//! (CUTLASS `OrderedSequenceBarrier<Depth, Length>`, whose `group_size` counts threads.)

use crate::cta::ClusterShape;
use crate::cta::{Place, Region};
use crate::cta::{Role, Warpgroup};
use crate::ring::{Name, name_of};
use core::marker::PhantomData;
use isa::device;
use isa::kernel::{Part, RegionFacts};

/// A barrier that makes the warp groups of role `Ro` take turns in `DEPTH` sections; `N` is its name.
///
/// It has one mbarrier for each section and group. CUTLASS's `Length` is the number of the role's warp groups.
///
/// (PTX `mbarrier.init`; CUTLASS `OrderedSequenceBarrier<Depth, Length>`.)
///
/// ```
/// # use warpipe_pipeline::{prelude::*, barrier::*};
/// # names! { Turns = "turns" } roles! { Math = 2 x 232 registers }
/// # type Alone = Cluster<1, 1>;
///
/// # use std::sync::Mutex;
/// # roles! { Load = 1 x 40 registers }
/// type Plan = SmemPlan<(OrderedSequence<2, Math, Turns>,)>;
/// assert_eq!(Plan::BYTES, 2 * 2 * 8);
///
/// /// Ping-pong: one group's main loop overlaps the other's epilogue.
/// fn kernel(cta: Cta<(Load, Math), Alone, Plan>, log: &Mutex<Vec<(&str, u32)>>) {
///     let (cta, (turns,)) = cta.init();
///     cta.specialize(
///         |_| {},
///         |group| {
///             let mut sequence = turns.by(&group);
///             for section in ["main loop", "epilogue"] {
///                 let turn = sequence.wait();
///                 if group.thread() == 0 {
///                     log.lock().unwrap().push((section, group.index()));
///                 }
///                 turn.pass_on();
///             }
///         },
///     );
/// }
/// # mod model { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/model.rs")); }
/// # let (memory, log) = (sim::GlobalMemory::new(), Mutex::new(Vec::new()));
/// # model::run(1, &memory, |cta| kernel(cta, &log)).unwrap();
/// # let mut log = log.into_inner().unwrap();
/// # log.sort_by_key(|(section, _)| *section == "epilogue"); // stable: order within a section stays
/// assert_eq!(log, [("main loop", 0), ("main loop", 1), ("epilogue", 0), ("epilogue", 1)]);
/// ```
pub struct OrderedSequence<const DEPTH: usize, Ro, N>(PhantomData<(Ro, N)>);

/// The arrivals that pass a turn on: one from each warp of the group.
const ARRIVALS: u32 = 4;

// SAFETY: DEPTH * Ro::GROUPS mbarriers of 8 bytes. Each expects the arrivals that the warps of the previous group
// make when they pass their turn on.
unsafe impl<const DEPTH: usize, Ro: Role, N: Name> Region for OrderedSequence<DEPTH, Ro, N> {
    const BYTES: usize = {
        assert!(DEPTH >= 1, "a sequence has at least one section");
        assert!(Ro::GROUPS >= 2, "a sequence orders at least two groups");
        8 * DEPTH * Ro::GROUPS
    };
    const ALIGN: usize = 8;
    const NAME: &'static str = name_of::<N>();
    const FACTS: RegionFacts = RegionFacts::of(
        "OrderedSequence",
        &[Part::Mbarriers {
            what: "",
            offset: 0,
            count: (DEPTH * Ro::GROUPS) as u32,
            arrivals: ARRIVALS,
            by: "each warp of the warp group before",
        }],
    );
    type Ends = SequenceEnd<DEPTH, Ro, N>;
    #[isa::forceinline]
    unsafe fn init(place: Place) {
        for i in 0..(DEPTH * Ro::GROUPS) as u32 {
            // SAFETY: the region's own memory, initialised once.
            unsafe { isa::mbarrier::init(place.base + 8 * i, ARRIVALS) };
            isa::debug::label_barrier(place.base + 8 * i, N::NAME, i);
        }
    }
    #[isa::forceinline]
    unsafe fn ends(place: Place) -> Self::Ends {
        SequenceEnd { base: place.base, name: PhantomData }
    }
}

/// The end of a sequence before a warp group has taken it.
///
/// (CUTLASS `OrderedSequenceBarrier::Params`.)
///
/// ```
/// # use warpipe_pipeline::{prelude::*, barrier::*};
/// # names! { Turns = "turns" } roles! { Math = 2 x 232 registers }
/// # type Alone = Cluster<1, 1>;
///
/// fn take(end: SequenceEnd<2, Math, Turns>, group: &Warpgroup<Math, Alone>) {
///     let _part: Sequence<'_, 2, Math, Turns, Alone> = end.by(group);
/// }
/// ```
#[must_use]
pub struct SequenceEnd<const DEPTH: usize, Ro, N> {
    base: u32,
    name: PhantomData<(Ro, N, *const ())>,
}

impl<const DEPTH: usize, Ro: Role, N: Name> SequenceEnd<DEPTH, Ro, N> {
    /// Gives the end to a warp group: group i of the role is group i of the sequence.
    ///
    /// (CUTLASS `params.group_id`.) See the example of [`OrderedSequence`].
    #[isa::forceinline]
    pub fn by<Cl: ClusterShape>(self, group: &Warpgroup<Ro, Cl>) -> Sequence<'_, DEPTH, Ro, N, Cl> {
        // Group 0 does not wait in its first round, like a producer on a fresh ring.
        let phase = u32::from(group.index() == 0);
        Sequence { base: self.base, section: 0, phase, group, name: PhantomData }
    }
}

/// One warp group's end of a sequence.
///
/// (PTX `mbarrier.try_wait.parity`, `mbarrier.arrive`; CUTLASS `OrderedSequenceBarrier` with its state.)
///
/// ```
/// # use warpipe_pipeline::{prelude::*, barrier::*};
/// # names! { Turns = "turns" } roles! { Math = 2 x 232 registers }
/// # type Alone = Cluster<1, 1>;
///
/// fn in_turn(sequence: &mut Sequence<'_, 1, Math, Turns, Alone>) {
///     for _round in 0..9 {
///         sequence.wait().pass_on();
///     }
/// }
/// ```
#[must_use]
pub struct Sequence<'g, const DEPTH: usize, Ro, N, Cl> {
    base: u32,
    section: u32,
    phase: u32,
    group: &'g Warpgroup<Ro, Cl>,
    name: PhantomData<N>,
}

impl<const DEPTH: usize, Ro: Role, N: Name, Cl: ClusterShape> Sequence<'_, DEPTH, Ro, N, Cl> {
    fn barrier(&self, group: u32) -> u32 {
        self.base + 8 * (self.section * Ro::GROUPS as u32 + group)
    }

    /// Waits for this group's turn in the next section, which the previous group passes on.
    ///
    /// (PTX `mbarrier.try_wait.parity`, in a loop; CUTLASS `OrderedSequenceBarrier::wait`.) See the example of
    /// [`OrderedSequence`].
    #[device]
    pub fn wait(&mut self) -> Turn<'_> {
        let own = self.barrier(self.group.index());
        // SAFETY: the plan initialised the barrier, and the phase changes once per round.
        unsafe { isa::mbarrier::wait_parity(own, self.phase) };
        let next =
            if self.group.index() + 1 == Ro::GROUPS as u32 { 0 } else { self.group.index() + 1 };
        let passes_to = self.barrier(next);
        isa::debug::hold(passes_to, "turn of", N::NAME, self.section, "passed on");
        self.section += 1;
        if self.section == DEPTH as u32 {
            self.section = 0;
            self.phase ^= 1;
        }
        Turn {
            next: passes_to,
            signals: self.group.thread().is_multiple_of(32),
            sequence: PhantomData,
        }
    }
}

/// The token of a warp group's turn in one section. While the group holds it, it can't wait for another turn.
///
/// ```
/// # use warpipe_pipeline::{prelude::*, barrier::*};
/// # names! { Turns = "turns" } roles! { Math = 2 x 232 registers }
/// # type Alone = Cluster<1, 1>;
///
/// fn section(turn: Turn<'_>) {
///     // Work that only one group does at a time.
///     turn.pass_on();
/// }
/// ```
#[must_use = "a turn that is never passed on stops the sequence: call `pass_on`"]
pub struct Turn<'s> {
    next: u32,
    signals: bool,
    sequence: PhantomData<&'s mut ()>,
}

impl Turn<'_> {
    /// Passes the turn to the next group.
    ///
    /// Each warp reconverges, and one of its lanes arrives on the next group's barrier of this section. (PTX
    /// `bar.warp.sync`, `mbarrier.arrive`; CUTLASS `OrderedSequenceBarrier::arrive`, which also steps.) See the
    /// example of [`Turn`].
    #[device]
    pub fn pass_on(self) {
        isa::debug::let_go(self.next);
        // SAFETY: a converged warp group takes a turn, and its warps stay converged through the pipeline's calls.
        unsafe { isa::warp::sync_warp(u32::MAX) };
        if self.signals {
            // SAFETY: the plan initialised the barrier with one arrival per warp, and the group has one token.
            unsafe { isa::mbarrier::arrive(self.next) };
        }
        // The warp reconverges, as after a store (see `PublishedBuffer::store`).
        // SAFETY: as above.
        unsafe { isa::warp::sync_warp(u32::MAX) };
    }
}
