//! Named barriers: the 16 hardware barriers of a CTA, which the plan allocates.
//!
//! Invariant: each barrier has an id of its own and the thread count of its roles. The plan assigns the ids, so
//! two barriers can't share one, and none gets id 0 (the CTA's) or the id of a warp group's barrier
//! ([`Warpgroup::sync`]). The count includes the threads that only arrive and those that wait. The two sides are
//! two types: an [`Arriver`] never waits, and a [`Waiter`] does.
//!
//! A named barrier has no memory, no phase and no transaction count. The types do not stop an arriver from
//! arriving a second time before the waiters have waited for the first arrival. A pair of barriers, one for
//! each direction, prevents this, as [`crate::ring::Ring`] does with mbarriers. The model of the SM reports the
//! mistake.

use crate::cta::ClusterShape;
use crate::cta::{Place, Region};
use crate::cta::{Role, WARPGROUP_THREADS, Warpgroup};
use crate::ring::{Name, name_of};
use core::marker::PhantomData;
use isa::device;
use isa::kernel::{Part, RegionFacts};

/// A named barrier at which role `A` arrives and role `W` waits; `N` is its name.
///
/// The thread count follows from the roles and the id from the plan. (CUTLASS `NamedBarrier`, which takes both
/// as numbers.)
///
/// ```
/// # use warpipe_pipeline::{barrier::*, prelude::*};
/// # names! { Ready = "ready" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Alone = Cluster<1, 1>;
///
/// # use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
/// type Plan = SmemPlan<(NamedBarrier<Load, Math, Ready>,)>;
/// /// No thread of `Math` passes before all threads of `Load` have arrived.
/// fn kernel(cta: Cta<(Load, Math), Alone, Plan>, arrived: &AtomicU32) {
///     let (cta, (ready,)) = cta.init();
///     cta.specialize(
///         |load| {
///             arrived.fetch_add(1, SeqCst);
///             ready.arriver.arrive(&load);
///         },
///         |math| {
///             ready.waiter.sync(&math);
///             assert_eq!(arrived.load(SeqCst), 128);
///         },
///     );
/// }
/// # mod model { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/model.rs")); }
/// # let (memory, arrived) = (sim::GlobalMemory::new(), AtomicU32::new(0));
/// # model::run(1, &memory, |cta| kernel(cta, &arrived)).unwrap();
/// ```
pub struct NamedBarrier<A, W, N>(PhantomData<(A, W, N)>);

/// No role arrives without waiting: every thread of the barrier waits.
///
/// ```
/// # use warpipe_pipeline::{barrier::*, prelude::*};
/// # names! { Ready = "ready" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Alone = Cluster<1, 1>;
///
/// fn count(all: &Waiter<Nobody, Math, Ready>, group: &Warpgroup<Math, Alone>, p: bool) -> u32 {
///     all.popc(group, p)
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Nobody {}

mod sealed {
    pub trait Arrivals {}
}
impl sealed::Arrivals for Nobody {}
impl<R: Role> sealed::Arrivals for R {}

/// The arriving side of a [`NamedBarrier`]: a role, or [`Nobody`].
///
/// (CUTLASS: its share of `num_threads`.)
///
/// ```
/// use warpipe_pipeline::{barrier::{Arrivals, Nobody}, prelude::*};
/// roles! { Math = 2 x 232 registers }
/// assert_eq!((<Math as Arrivals>::THREADS, <Nobody as Arrivals>::THREADS), (256, 0));
/// ```
pub trait Arrivals: sealed::Arrivals + 'static {
    /// The number of threads that arrive.
    const THREADS: u32;
}
impl Arrivals for Nobody {
    const THREADS: u32 = 0;
}
impl<R: Role> Arrivals for R {
    const THREADS: u32 = WARPGROUP_THREADS * R::GROUPS as u32;
}

impl<A: Arrivals, W: Role, N> NamedBarrier<A, W, N> {
    const THREADS: u32 = A::THREADS + WARPGROUP_THREADS * W::GROUPS as u32;
}

// SAFETY: it has one named barrier and no memory.
unsafe impl<A: Arrivals, W: Role, N: Name> Region for NamedBarrier<A, W, N> {
    const BYTES: usize = 0;
    const ALIGN: usize = 1;
    const BARRIERS: u32 = 1;
    const NAME: &'static str = name_of::<N>();
    const FACTS: RegionFacts = RegionFacts::of(
        "NamedBarrier",
        const {
            &[Part::Named {
                threads: Self::THREADS,
                by: if A::THREADS == 0 {
                    "the role that waits"
                } else {
                    "the role that arrives and the role that waits"
                },
            }]
        },
    );
    type Ends = NamedEnds<A, W, N>;
    #[isa::forceinline]
    unsafe fn init(place: Place) {
        isa::debug::label_named_barrier(place.barrier, N::NAME);
    }
    #[isa::forceinline]
    unsafe fn ends(place: Place) -> Self::Ends {
        NamedEnds {
            arriver: Arriver { id: place.barrier, name: PhantomData },
            waiter: Waiter { id: place.barrier, name: PhantomData },
        }
    }
}

/// The two sides of a [`NamedBarrier`].
///
/// ```
/// # use warpipe_pipeline::{barrier::*, prelude::*};
/// # names! { Ready = "ready" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Alone = Cluster<1, 1>;
///
/// # type A = Arriver<Load, Math, Ready>; type W = Waiter<Load, Math, Ready>;
/// fn apart(ends: NamedEnds<Load, Math, Ready>) -> (A, W) {
///     (ends.arriver, ends.waiter)
/// }
/// ```
pub struct NamedEnds<A, W, N> {
    /// The side of the role that arrives.
    pub arriver: Arriver<A, W, N>,
    /// The side of the role that waits.
    pub waiter: Waiter<A, W, N>,
}

/// The side that arrives and does not wait.
///
/// (PTX `barrier.cta.arrive`; CUTLASS `NamedBarrier::arrive`.)
///
/// ```
/// # use warpipe_pipeline::{barrier::*, prelude::*};
/// # names! { Ready = "ready" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Alone = Cluster<1, 1>;
///
/// fn say(ready: &Arriver<Load, Math, Ready>, group: &Warpgroup<Load, Alone>) {
///     ready.arrive(group);
/// }
/// ```
#[must_use]
pub struct Arriver<A, W, N> {
    id: u32,
    name: PhantomData<(A, W, N, *const ())>,
}

impl<A: Role, W: Role, N: Name> Arriver<A, W, N> {
    /// Arrives with the group's 128 threads.
    ///
    /// (PTX `barrier.cta.arrive`; CUTLASS `NamedBarrier::arrive`.) See the example of [`Arriver`].
    #[device]
    pub fn arrive<Cl: ClusterShape>(&self, _group: &Warpgroup<A, Cl>) {
        // SAFETY: the group is converged; the id is the plan's and the count that of the roles.
        unsafe { isa::barrier::arrive(self.id, NamedBarrier::<A, W, N>::THREADS) }
    }
}

/// The side that arrives and waits.
///
/// (PTX `barrier.cta.sync`; CUTLASS `NamedBarrier::sync`.)
///
/// ```
/// # use warpipe_pipeline::{barrier::*, prelude::*};
/// # names! { Ready = "ready" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Alone = Cluster<1, 1>;
///
/// fn hear(ready: &Waiter<Load, Math, Ready>, group: &Warpgroup<Math, Alone>) {
///     ready.sync(group);
/// }
/// fn vote(all: &Waiter<Nobody, Math, Ready>, group: &Warpgroup<Math, Alone>, p: bool) -> bool {
///     all.popc(group, p) > 5 || all.all(group, p) || all.any(group, p)
/// }
/// ```
#[must_use]
pub struct Waiter<A, W, N> {
    id: u32,
    name: PhantomData<(A, W, N, *const ())>,
}

impl<A: Arrivals, W: Role, N: Name> Waiter<A, W, N> {
    const THREADS: u32 = NamedBarrier::<A, W, N>::THREADS;

    /// Arrives with the group's 128 threads and waits until all threads of both sides have arrived.
    ///
    /// (PTX `barrier.cta.sync`; CUTLASS `NamedBarrier::sync`, `arrive_and_wait`.) See the example of
    /// [`Waiter`].
    #[device]
    pub fn sync<Cl: ClusterShape>(&self, _group: &Warpgroup<W, Cl>) {
        // SAFETY: the group is converged; the id is the plan's and the count that of the roles.
        unsafe { isa::barrier::sync(self.id, Self::THREADS) }
    }
}

impl<W: Role, N: Name> Waiter<Nobody, W, N> {
    /// Counts the threads of role `W` for which `p` holds.
    ///
    /// Waits until all threads of the role have arrived, each with its `p`. (PTX `barrier.cta.red.popc`.) See the
    /// example of [`Waiter`].
    #[device]
    pub fn popc<Cl: ClusterShape>(&self, _group: &Warpgroup<W, Cl>, p: bool) -> u32 {
        // SAFETY: as in `sync`. No thread arrives without a predicate.
        unsafe { isa::barrier::red_popc(self.id, Self::THREADS, p) }
    }
    /// Whether `p` holds in every thread of role `W`.
    ///
    /// Waits until all threads of the role have arrived, each with its `p`. (PTX `barrier.cta.red.and`.) See the
    /// example of [`Waiter`].
    #[device]
    pub fn all<Cl: ClusterShape>(&self, _group: &Warpgroup<W, Cl>, p: bool) -> bool {
        // SAFETY: as in `popc`.
        unsafe { isa::barrier::red_and(self.id, Self::THREADS, p) }
    }
    /// Whether `p` holds in any thread of role `W`.
    ///
    /// Waits until all threads of the role have arrived, each with its `p`. (PTX `barrier.cta.red.or`.) See the
    /// example of [`Waiter`].
    #[device]
    pub fn any<Cl: ClusterShape>(&self, _group: &Warpgroup<W, Cl>, p: bool) -> bool {
        // SAFETY: as in `popc`.
        unsafe { isa::barrier::red_or(self.id, Self::THREADS, p) }
    }
}
