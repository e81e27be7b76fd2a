//! `NamedSequence`: warp groups that take turns, by named barriers.
//!
//! Invariant: a group has its turn when the group before it has passed the turn on; group 0 has the first one.
//!
//! It does what an [`OrderedSequence`](crate::barrier::OrderedSequence) of depth 1 does, without memory and without
//! a phase. A group that waits for its turn sleeps in hardware instead of polling an mbarrier, and a turn that is
//! passed on costs one instruction. The price is one of the CTA's 16 named barriers for each group.
//!
//! A named barrier can't store a second arrival: the next group must have taken its turn before the turn reaches it
//! again. This always holds, because the turn passes through all groups.
//! (FlashAttention-3: `warp_scheduler_barrier_sync`, `warp_scheduler_barrier_arrive`.)

use crate::cta::{ClusterShape, Place, Region, Role, WARPGROUP_THREADS, Warpgroup};
use crate::ring::{Name, name_of};
use core::marker::PhantomData;
use isa::device;
use isa::kernel::{Part, RegionFacts};

/// Named barriers by which the warp groups of role `Ro` take turns; `N` is its name.
///
/// The groups enter in order: 0, 1, … and 0 again. Every group takes as many turns as the others, or one more than
/// the groups after it.
///
/// (PTX `barrier.cta`; FlashAttention-3 `warp_scheduler_barrier`; CUTLASS: `OrderedSequenceBarrier<1, Length>`, which
/// uses mbarriers.)
///
/// ```
/// # use warpipe_pipeline::{prelude::*, barrier::*};
/// # names! { Turns = "turns" } roles! { Math = 2 x 232 registers }
/// # type Alone = Cluster<1, 1>;
///
/// # use std::sync::Mutex;
/// # roles! { Load = 1 x 40 registers }
/// type Plan = SmemPlan<(NamedSequence<Math, Turns>,)>;
/// assert_eq!(Plan::BYTES, 0);
///
/// fn kernel(cta: Cta<(Load, Math), Alone, Plan>, log: &Mutex<Vec<u32>>) {
///     let (cta, (turns,)) = cta.init();
///     cta.specialize(
///         |_| {},
///         |group| {
///             let mut turns = turns.by(&group);
///             for _ in 0..2 {
///                 let turn = turns.wait();
///                 if group.thread() == 0 {
///                     log.lock().unwrap().push(group.index());
///                 }
///                 turn.pass_on();
///             }
///         },
///     );
/// }
/// # mod model { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/model.rs")); }
/// # let (memory, log) = (sim::GlobalMemory::new(), Mutex::new(Vec::new()));
/// # model::run(1, &memory, |cta| kernel(cta, &log)).unwrap();
/// assert_eq!(log.into_inner().unwrap(), [0, 1, 0, 1]);
/// ```
pub struct NamedSequence<Ro, N>(PhantomData<(Ro, N)>);

impl<Ro: Role, N> NamedSequence<Ro, N> {
    /// The group that waits, and the one that passes its turn on.
    const THREADS: u32 = 2 * WARPGROUP_THREADS;
    /// A named barrier for each group, and more: a CTA has at most eight warp groups.
    const TURNS: &'static [Part] = &[const {
        Part::Named {
            threads: Self::THREADS,
            by: "the warp group that waits and the one before it",
        }
    }; 8];
}

// SAFETY: it has a named barrier for each group and no memory.
unsafe impl<Ro: Role, N: Name> Region for NamedSequence<Ro, N> {
    const BYTES: usize = {
        assert!(Ro::GROUPS >= 2, "a sequence orders at least two groups");
        0
    };
    const ALIGN: usize = 1;
    const BARRIERS: u32 = Ro::GROUPS as u32;
    const NAME: &'static str = name_of::<N>();
    const FACTS: RegionFacts = RegionFacts::of("NamedSequence", Self::TURNS.split_at(Ro::GROUPS).0);
    type Ends = NamedSequenceEnd<Ro, N>;
    #[isa::forceinline]
    unsafe fn init(place: Place) {
        for group in 0..Self::BARRIERS {
            isa::debug::label_named_barrier(place.barrier + group, N::NAME);
        }
    }
    #[isa::forceinline]
    unsafe fn ends(place: Place) -> Self::Ends {
        NamedSequenceEnd { first: place.barrier, name: PhantomData }
    }
}

/// The end of a [`NamedSequence`], before a warp group takes it.
///
/// See the example of [`NamedSequence`].
#[must_use]
pub struct NamedSequenceEnd<Ro, N> {
    first: u32,
    name: PhantomData<(Ro, N, *const ())>,
}

impl<Ro: Role, N: Name> NamedSequenceEnd<Ro, N> {
    /// Gives the end to a warp group: group i of the role is group i of the sequence.
    ///
    /// The last group passes the first turn to group 0. (PTX `barrier.cta.arrive`; FlashAttention-3 `mma_init`.) See
    /// the example of [`NamedSequence`].
    #[device]
    pub fn by<Cl: ClusterShape>(self, group: &Warpgroup<Ro, Cl>) -> NamedTurns<'_, Ro, N, Cl> {
        if group.index() + 1 == Ro::GROUPS as u32 {
            // SAFETY: the group is converged, the id is the plan's, and group 0 waits for this arrival in its
            // first turn.
            unsafe { isa::barrier::arrive(self.first, NamedSequence::<Ro, N>::THREADS) };
        }
        NamedTurns { first: self.first, group, name: PhantomData }
    }
}

/// A warp group's end of a [`NamedSequence`].
///
/// See the example of [`NamedSequence`].
#[must_use]
pub struct NamedTurns<'g, Ro, N, Cl> {
    first: u32,
    group: &'g Warpgroup<Ro, Cl>,
    name: PhantomData<N>,
}

impl<Ro: Role, N: Name, Cl: ClusterShape> NamedTurns<'_, Ro, N, Cl> {
    /// Waits for this group's turn.
    ///
    /// (PTX `barrier.cta.sync` with the threads of two groups; FlashAttention-3 `warp_scheduler_barrier_sync`.) See
    /// the example of [`NamedSequence`].
    #[device]
    pub fn wait(&mut self) -> NamedTurn<'_> {
        let own = self.group.index();
        let threads = NamedSequence::<Ro, N>::THREADS;
        // SAFETY: the group is converged; the id is the plan's, and the count that of this group and the one before.
        unsafe { isa::barrier::sync(self.first + own, threads) };
        let next = if own + 1 == Ro::GROUPS as u32 { 0 } else { own + 1 };
        isa::debug::hold(next, "turn of", N::NAME, own, "passed on");
        NamedTurn { next: self.first + next, key: next, threads, turns: PhantomData }
    }
}

/// A warp group's turn.
///
/// See the example of [`NamedSequence`].
#[must_use = "a turn that is never passed on stops the sequence: call `pass_on`"]
pub struct NamedTurn<'t> {
    next: u32,
    key: u32,
    threads: u32,
    turns: PhantomData<&'t mut ()>,
}

impl NamedTurn<'_> {
    /// Passes the turn to the next group.
    ///
    /// Signals the next group's barrier. (PTX `barrier.cta.arrive`; FlashAttention-3 `warp_scheduler_barrier_arrive`.)
    /// See the example of [`NamedSequence`].
    #[device]
    pub fn pass_on(self) {
        isa::debug::let_go(self.key);
        // SAFETY: a converged group took the turn, and its warps stay converged through the pipeline's calls; the
        // id and the count are those of the next group's barrier.
        unsafe { isa::barrier::arrive(self.next, self.threads) };
    }
}
