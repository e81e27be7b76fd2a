//! Named barriers: the CTA's hardware barriers, allocated by the plan.
//!
//! They have no memory, no phase and no transactions, and count threads: those that only arrive and
//! those that wait, together. The number of a barrier is its place in the plan, so two can't share
//! one, and neither 0, the CTA's, nor those of the warp groups ([`Warpgroup::sync`]) can be taken. The two sides
//! are two types: [`Arriver`] never waits, [`Waiter`] does.
//!
//! Nothing stops an arriver from lapping the waiters (a second arrival before the first is waited
//! for): pair two barriers, one for each direction, as [`crate::ring::Ring`] does with mbarriers.
//! The SM model reports a lap.

use crate::cluster::ClusterShape;
use crate::ring::Name;
use crate::roles::{Role, WARPGROUP_THREADS, Warpgroup};
use crate::smem::{Place, Region};
use core::marker::PhantomData;

/// A hardware barrier at which `A` arrives and `W` waits; `N` is its name. The thread count is the
/// roles'. (CUTLASS `NamedBarrier`, whose count and id are numbers.)
pub struct NamedBarrier<A, W, N>(PhantomData<(A, W, N)>);

/// Nobody arrives without waiting.
#[derive(Clone, Copy, Debug)]
pub enum Nobody {}

mod sealed {
    pub trait Arrivals {}
}
impl sealed::Arrivals for Nobody {}
impl<R: Role> sealed::Arrivals for R {}

/// The arriving side of a [`NamedBarrier`]: a role, or [`Nobody`].
pub trait Arrivals: sealed::Arrivals + 'static {
    /// How many threads arrive.
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

// SAFETY: one hardware barrier and no memory.
unsafe impl<A: Arrivals, W: Role, N: Name> Region for NamedBarrier<A, W, N> {
    const BYTES: usize = 0;
    const ALIGN: usize = 1;
    const BARRIERS: u32 = 1;
    const NAME: &'static str = N::NAME;
    type Ends = NamedEnds<A, W, N>;
    #[inline(always)]
    unsafe fn init(_place: Place) {}
    #[inline(always)]
    unsafe fn ends(place: Place) -> Self::Ends {
        NamedEnds {
            arriver: Arriver { id: place.barrier, name: PhantomData },
            waiter: Waiter { id: place.barrier, name: PhantomData },
        }
    }
}

/// The two sides of a [`NamedBarrier`].
pub struct NamedEnds<A, W, N> {
    /// For the role that arrives.
    pub arriver: Arriver<A, W, N>,
    /// For the role that waits.
    pub waiter: Waiter<A, W, N>,
}

/// The side that arrives and goes on.
#[must_use]
pub struct Arriver<A, W, N> {
    id: u32,
    name: PhantomData<(A, W, N, *const ())>,
}

impl<A: Role, W: Role, N: Name> Arriver<A, W, N> {
    /// Arrives with the group's threads, and waits for nothing (`barrier.cta.arrive`).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn arrive<K: ClusterShape>(&self, _group: &Warpgroup<A, K>) {
        // SAFETY: the group is converged; id and count are the plan's.
        unsafe { isa::barrier::arrive(self.id, NamedBarrier::<A, W, N>::THREADS) }
    }
}

/// The side that waits.
#[must_use]
pub struct Waiter<A, W, N> {
    id: u32,
    name: PhantomData<(A, W, N, *const ())>,
}

impl<A: Arrivals, W: Role, N: Name> Waiter<A, W, N> {
    const THREADS: u32 = NamedBarrier::<A, W, N>::THREADS;

    /// Waits for all threads of both sides (`barrier.cta.sync`).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn sync<K: ClusterShape>(&self, _group: &Warpgroup<W, K>) {
        // SAFETY: the group is converged; id and count are the plan's.
        unsafe { isa::barrier::sync(self.id, Self::THREADS) }
    }
}

impl<W: Role, N: Name> Waiter<Nobody, W, N> {
    /// Waits for all groups and counts the threads for which `p` holds (`barrier.cta.red.popc`).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn popc<K: ClusterShape>(&self, _group: &Warpgroup<W, K>, p: bool) -> u32 {
        // SAFETY: as in `sync`; a reduction has no arrivers that bring no predicate.
        unsafe { isa::barrier::red_popc(self.id, Self::THREADS, p) }
    }
    /// Waits for all groups; whether `p` holds in every thread (`barrier.cta.red.and`).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn all<K: ClusterShape>(&self, _group: &Warpgroup<W, K>, p: bool) -> bool {
        // SAFETY: as in `popc`.
        unsafe { isa::barrier::red_and(self.id, Self::THREADS, p) }
    }
    /// Waits for all groups; whether `p` holds in any thread (`barrier.cta.red.or`).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn any<K: ClusterShape>(&self, _group: &Warpgroup<W, K>, p: bool) -> bool {
        // SAFETY: as in `popc`.
        unsafe { isa::barrier::red_or(self.id, Self::THREADS, p) }
    }
}
