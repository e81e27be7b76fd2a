//! `LoadOrderBarrier`: the epilogue's loads start after the main loop's first loads.
//!
//! Both load warps share one TMA unit. If the epilogue's loads of C went first, the main loop's
//! prologue, on which the tensor cores wait, would queue behind bytes that are needed only at the
//! tile's end. The main-loop load warp arrives when it has *issued* its prologue (not when the bytes
//! have landed: that is the ring's affair); the epilogue load warp waits for that.
//!
//! | CUTLASS `OrderedSequenceBarrier<1, 2>` | Mojo `LoadOrderBarrier` | here |
//! |---|---|---|
//! | constructor, `params.group_size` | `init(arrive_count)` | the plan, `ARRIVALS` |
//! | `params.group_id` 0 or 1 | which methods are called | [`MainLoopLoads`] or [`EpilogueLoads`] |
//! | state's first phase, by `group_id` | `initial_phase` | the waiting end's own, 0 |
//! | `arrive` (arrives and steps) | `arrive_and_step` | [`MainLoopLoads::arrive_and_step`] |
//! | - | `arrive`, then `step` | [`MainLoopLoads::arrive`], then [`Arrived::step`] |
//! | `wait`, then `advance` | `wait_and_step` | [`EpilogueLoads::wait_and_step`] |
//! | `wait` | `wait`, then `step` | [`EpilogueLoads::wait`], then [`Passed::step`] |
//!
//! CUTLASS arrives once per kernel; Mojo once per tile. Both work here. Per tile, the arriver must
//! not run two steps ahead of the waiter: on one mbarrier the waiter would miss a phase. The SM
//! model reports that.
//!
//! Where the two others have one type with all methods, there are two here, as each end has a use
//! for only half of them: waiting on the side that arrives is what a swapped pair of warps does.

use crate::cluster::ClusterShape;
use crate::raw::MAX_COUNT;
use crate::ring::Name;
use crate::roles::{Elected, Role};
use crate::smem::{Place, Region};
use core::marker::PhantomData;

/// One mbarrier that expects `ARRIVALS` arrivals a phase, one from each thread that loads for the
/// main loop; `N` is its name.
pub struct LoadOrderBarrier<N, const ARRIVALS: usize = 1>(PhantomData<N>);

/// The two ends of a [`LoadOrderBarrier`], inert until a thread takes them with `by`.
pub struct LoadOrderEnds<N, const ARRIVALS: usize = 1> {
    /// For the warp, or warps, that load the main loop's operands.
    pub main_loop: MainLoopEnd<N, ARRIVALS>,
    /// For the warp that loads the epilogue's operands.
    pub epilogue: EpilogueEnd<N>,
}

// SAFETY: one mbarrier in its 8 bytes; ARRIVALS arrivers, as that many main-loop ends can be had of
// it, none is Copy and each is taken by one thread.
unsafe impl<N: Name, const ARRIVALS: usize> Region for LoadOrderBarrier<N, ARRIVALS> {
    const BYTES: usize = {
        assert!(
            ARRIVALS >= 1 && ARRIVALS <= MAX_COUNT,
            "a load-order barrier expects from 1 to 2^20 - 1 arrivals, one from each thread that \
             loads for the main loop"
        );
        8
    };
    const ALIGN: usize = 8;
    const NAME: &'static str = N::NAME;
    type Ends = LoadOrderEnds<N, ARRIVALS>;
    #[inline(always)]
    unsafe fn init(place: Place) {
        // SAFETY: the region's own memory, initialised once.
        unsafe { isa::mbarrier::init(place.base, ARRIVALS as u32) };
        isa::debug::label_barrier(place.base, N::NAME, 0);
    }
    #[inline(always)]
    unsafe fn ends(place: Place) -> Self::Ends {
        LoadOrderEnds {
            main_loop: MainLoopEnd { barrier: place.base, name: PhantomData },
            epilogue: EpilogueEnd { barrier: place.base, name: PhantomData },
        }
    }
}

/// The main loop's end, of which `ARRIVALS` threads each take a part.
#[must_use]
pub struct MainLoopEnd<N, const ARRIVALS: usize = 1> {
    barrier: u32,
    name: PhantomData<(N, *const ())>,
}
impl<N: Name> MainLoopEnd<N> {
    /// Gives the end to an elected thread.
    #[inline(always)]
    pub fn by<Ro: Role, K: ClusterShape>(self, _one: &Elected<Ro, K>) -> MainLoopLoads<N> {
        MainLoopLoads { barrier: self.barrier, name: PhantomData }
    }
}
impl<N: Name, const ARRIVALS: usize> MainLoopEnd<N, ARRIVALS> {
    /// The parts of the threads that load for the main loop. Each is taken by one; a step is through
    /// when all have arrived.
    #[inline(always)]
    pub fn split(self) -> [MainLoopEnd<N>; ARRIVALS] {
        core::array::from_fn(|_| MainLoopEnd { barrier: self.barrier, name: PhantomData })
    }
}

/// The arriving end.
#[must_use]
pub struct MainLoopLoads<N> {
    barrier: u32,
    name: PhantomData<(N, *const ())>,
}
impl<N: Name> MainLoopLoads<N> {
    /// Says that this step's prologue loads are issued (`mbarrier.arrive`). Waits for nothing. The
    /// next arrival can come only after this one is stepped.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn arrive(&mut self) -> Arrived<'_> {
        // SAFETY: initialised by the plan with one arrival for each of these ends, of which this
        // is one thread's.
        unsafe { isa::mbarrier::arrive(self.barrier) };
        Arrived { end: PhantomData }
    }
    /// [`arrive`](Self::arrive) and [`step`](Arrived::step). The barrier keeps the phase; the
    /// arriving end has none to forget.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn arrive_and_step(&mut self) {
        self.arrive().step();
    }
}

/// This step's arrival is made. While it is held, the end can't arrive again.
#[must_use = "an arrival is followed by `step()`: the next one is the next tile's"]
pub struct Arrived<'e> {
    end: PhantomData<&'e mut ()>,
}
impl Arrived<'_> {
    /// Goes on to the next step.
    #[inline(always)]
    pub fn step(self) {}
}

/// The epilogue's end before a thread has taken it.
#[must_use]
pub struct EpilogueEnd<N> {
    barrier: u32,
    name: PhantomData<(N, *const ())>,
}
impl<N: Name> EpilogueEnd<N> {
    /// Gives the end to an elected thread.
    #[inline(always)]
    pub fn by<Ro: Role, K: ClusterShape>(self, _one: &Elected<Ro, K>) -> EpilogueLoads<N> {
        EpilogueLoads { barrier: self.barrier, phase: 0, name: PhantomData }
    }
}

/// The waiting end.
#[must_use]
pub struct EpilogueLoads<N> {
    barrier: u32,
    phase: u32,
    name: PhantomData<(N, *const ())>,
}
impl<N: Name> EpilogueLoads<N> {
    /// Waits until the main loop's end has arrived for this step (`mbarrier.try_wait.parity`).
    /// The phase moves with the wait, so that a token which is lost instead of stepped can't make
    /// the next wait see this step's arrival again.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn wait(&mut self) -> Passed<'_> {
        // SAFETY: initialised by the plan; the phase alternates with each step.
        unsafe { isa::mbarrier::wait_parity(self.barrier, self.phase) };
        self.phase ^= 1;
        Passed { end: PhantomData }
    }
    /// [`wait`](Self::wait) and [`step`](Passed::step).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn wait_and_step(&mut self) {
        self.wait().step();
    }
}

/// The main loop's loads of this step are issued. While it is held, the end can't wait again.
#[must_use = "a wait is followed by `step()`: the next one is the next tile's"]
pub struct Passed<'e> {
    end: PhantomData<&'e mut ()>,
}
impl Passed<'_> {
    /// Goes on to the next step.
    #[inline(always)]
    pub fn step(self) {}
}
