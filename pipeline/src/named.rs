//! Named barriers: the CTA's hardware barriers, allocated by the plan.
//!
//! They have no memory, no phase and no transactions, and count threads: those that only arrive and
//! those that wait, together. The number of a barrier is its place in the plan, so two can't share
//! one, and ids 0 (the CTA's) and 1 to 3 (the consumer warp groups') can't be taken. The two sides
//! are two types: [`Arriver`] never waits, [`Waiter`] does.
//!
//! Nothing stops an arriver from lapping the waiters (a second arrival before the first is waited
//! for): pair two barriers, one for each direction, as [`crate::ring::Ring`] does with mbarriers.
//! The SM model reports a lap.

use crate::cluster::ClusterShape;
use crate::ring::Name;
use crate::roles::{ProducerWarps, WARPGROUP_THREADS, Warpgroup};
use crate::smem::{Place, Region};
use core::marker::PhantomData;

const WARP_THREADS: u32 = 32;

/// A hardware barrier for `WARPS` arriving producer warps and `GROUPS` waiting consumer warp groups;
/// `N` is its name. (CUTLASS `NamedBarrier`, whose count and id are numbers.)
pub struct NamedBarrier<const WARPS: usize, const GROUPS: usize, N>(PhantomData<N>);

impl<const WARPS: usize, const GROUPS: usize, N> NamedBarrier<WARPS, GROUPS, N> {
    const THREADS: u32 = {
        assert!(WARPS <= 4, "the producer warp group has 4 warps");
        assert!(GROUPS >= 1 && GROUPS <= 3, "from 1 to 3 consumer warp groups wait");
        WARPS as u32 * WARP_THREADS + GROUPS as u32 * WARPGROUP_THREADS
    };
}

// SAFETY: one hardware barrier and no memory.
unsafe impl<const WARPS: usize, const GROUPS: usize, N: Name> Region
    for NamedBarrier<WARPS, GROUPS, N>
{
    const BYTES: usize = 0;
    const ALIGN: usize = 1;
    const BARRIERS: u32 = 1;
    const NAME: &'static str = N::NAME;
    type Ends = NamedEnds<WARPS, GROUPS, N>;
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
pub struct NamedEnds<const WARPS: usize, const GROUPS: usize, N> {
    /// For the producer warps.
    pub arriver: Arriver<WARPS, GROUPS, N>,
    /// For the consumer warp groups.
    pub waiter: Waiter<WARPS, GROUPS, N>,
}

/// The side that arrives and goes on.
#[must_use]
pub struct Arriver<const WARPS: usize, const GROUPS: usize, N> {
    id: u32,
    name: PhantomData<(N, *const ())>,
}

impl<const WARPS: usize, const GROUPS: usize, N: Name> Arriver<WARPS, GROUPS, N> {
    /// Arrives with the warp's 32 threads, and waits for nothing (`barrier.cta.arrive`).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn arrive<K: ClusterShape>(&self, _warp: &ProducerWarps<K>) {
        // SAFETY: the warp is converged; id and count are the plan's.
        unsafe { isa::barrier::arrive(self.id, NamedBarrier::<WARPS, GROUPS, N>::THREADS) }
    }
}

/// The side that waits.
#[must_use]
pub struct Waiter<const WARPS: usize, const GROUPS: usize, N> {
    id: u32,
    name: PhantomData<(N, *const ())>,
}

impl<const WARPS: usize, const GROUPS: usize, N: Name> Waiter<WARPS, GROUPS, N> {
    const THREADS: u32 = NamedBarrier::<WARPS, GROUPS, N>::THREADS;

    /// Waits for all threads of both sides (`barrier.cta.sync`).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn sync<K: ClusterShape>(&self, _group: &Warpgroup<GROUPS, K>) {
        // SAFETY: the group is converged; id and count are the plan's.
        unsafe { isa::barrier::sync(self.id, Self::THREADS) }
    }
}

impl<const GROUPS: usize, N: Name> Waiter<0, GROUPS, N> {
    /// Waits for all groups and counts the threads for which `p` holds (`barrier.cta.red.popc`).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn popc<K: ClusterShape>(&self, _group: &Warpgroup<GROUPS, K>, p: bool) -> u32 {
        // SAFETY: as in `sync`; a reduction has no arrivers that bring no predicate.
        unsafe { isa::barrier::red_popc(self.id, Self::THREADS, p) }
    }
    /// Waits for all groups; whether `p` holds in every thread (`barrier.cta.red.and`).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn all<K: ClusterShape>(&self, _group: &Warpgroup<GROUPS, K>, p: bool) -> bool {
        // SAFETY: as in `popc`.
        unsafe { isa::barrier::red_and(self.id, Self::THREADS, p) }
    }
    /// Waits for all groups; whether `p` holds in any thread (`barrier.cta.red.or`).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn any<K: ClusterShape>(&self, _group: &Warpgroup<GROUPS, K>, p: bool) -> bool {
        // SAFETY: as in `popc`.
        unsafe { isa::barrier::red_or(self.id, Self::THREADS, p) }
    }
}
