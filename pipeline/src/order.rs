//! `LoadOrderBarrier`: the epilogue's loads start after the main loop's first loads.
//!
//! Both load warps share one TMA unit. If the epilogue's loads of C went first, the main loop's
//! prologue, on which the tensor cores wait, would queue behind bytes that are needed only at the
//! tile's end. The main-loop load warp arrives when it has *issued* its prologue (not when the bytes
//! have landed: that is the ring's affair); the epilogue load warp waits for that.
//!
//! CUTLASS builds it as `OrderedSequenceBarrier<1, 2>` and arrives once per kernel; Mojo's struct of
//! this name steps once per tile. Both work here. Per tile, the arriver must not run two steps ahead
//! of the waiter: on one mbarrier the waiter would miss a phase. The SM model reports that.

use crate::cluster::ClusterShape;
use crate::ring::Name;
use crate::roles::{Elected, Role};
use crate::smem::{Place, Region};
use core::marker::PhantomData;

/// One mbarrier that expects one arrival a phase; `N` is its name.
pub struct LoadOrderBarrier<N>(PhantomData<N>);

/// The two ends of a [`LoadOrderBarrier`], inert until a thread takes them with `by`.
pub struct LoadOrderEnds<N> {
    /// For the warp that loads the main loop's operands.
    pub main_loop: MainLoopEnd<N>,
    /// For the warp that loads the epilogue's operands.
    pub epilogue: EpilogueEnd<N>,
}

// SAFETY: one mbarrier in its 8 bytes; one arriver, as the end is not Copy and taken by one thread.
unsafe impl<N: Name> Region for LoadOrderBarrier<N> {
    const BYTES: usize = 8;
    const ALIGN: usize = 8;
    const NAME: &'static str = N::NAME;
    type Ends = LoadOrderEnds<N>;
    #[inline(always)]
    unsafe fn init(place: Place) {
        // SAFETY: the region's own memory, initialised once.
        unsafe { isa::mbarrier::init(place.base, 1) };
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

/// The main loop's end before a thread has taken it.
#[must_use]
pub struct MainLoopEnd<N> {
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

/// The arriving end.
#[must_use]
pub struct MainLoopLoads<N> {
    barrier: u32,
    name: PhantomData<(N, *const ())>,
}
impl<N: Name> MainLoopLoads<N> {
    /// Says that this step's prologue loads are issued, and steps (`mbarrier.arrive`). Waits for
    /// nothing. The barrier keeps the phase; the arriving end has none to forget.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn arrive_and_step(&mut self) {
        // SAFETY: initialised by the plan with a count of one, and this is the only arriver.
        unsafe { isa::mbarrier::arrive(self.barrier) };
    }
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
    /// Waits until the main loop's end has arrived for this step
    /// (`mbarrier.try_wait.parity`), and steps.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn wait_and_step(&mut self) {
        // SAFETY: initialised by the plan; the phase alternates with each step.
        unsafe { isa::mbarrier::wait_parity(self.barrier, self.phase) };
        self.phase ^= 1;
    }
}
