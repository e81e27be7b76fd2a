//! Where a ring's parts lie, and what the filling ends of every kind have in common.

use crate::ring::Stage;
use crate::ring::{PipelineState, ProducerSide};
use core::marker::PhantomData;
use isa::device;

/// Where the parts of a ring of `STAGES` slots of `St` lie.
pub(super) struct Layout<const STAGES: usize, St>(PhantomData<St>);

impl<const STAGES: usize, St: Stage> Layout<STAGES, St> {
    const FULL: u32 = (STAGES * St::BYTES) as u32;
    const EMPTY: u32 = Self::FULL + 8 * STAGES as u32;

    #[inline(always)]
    pub(super) const fn data(base: u32, stage: u32) -> u32 {
        base + stage * St::BYTES as u32
    }
    #[inline(always)]
    pub(super) const fn full(base: u32, stage: u32) -> u32 {
        base + Self::FULL + 8 * stage
    }
    #[inline(always)]
    pub(super) const fn empty(base: u32, stage: u32) -> u32 {
        base + Self::EMPTY + 8 * stage
    }
}

/// Where a producer of any kind stands: the four verbs' common part.
pub(super) struct Filling<const STAGES: usize, St> {
    base: u32,
    state: PipelineState<STAGES, ProducerSide>,
    stage: PhantomData<St>,
}

impl<const STAGES: usize, St: Stage> Filling<STAGES, St> {
    #[inline(always)]
    pub(super) fn start(base: u32) -> Self {
        Self { base, state: PipelineState::start(), stage: PhantomData }
    }
    fn empty(&self) -> u32 {
        Layout::<STAGES, St>::empty(self.base, self.state.index())
    }
    /// Whether the next slot is empty; may suspend for a while (`mbarrier.try_wait.parity`).
    #[device]
    pub(super) fn peek(&self) -> bool {
        // SAFETY: the barrier was initialised by the plan.
        unsafe { isa::mbarrier::try_wait_parity(self.empty(), self.state.phase()) }
    }
    /// Waits for the next slot unless `known` says that it is empty, takes it and steps: addresses
    /// of its data and of its full barrier.
    #[device]
    pub(super) fn take(&mut self, known: bool) -> (u32, u32) {
        if !known {
            // SAFETY: the barrier was initialised by the plan; the state's phase is its discipline.
            unsafe { isa::mbarrier::wait_parity(self.empty(), self.state.phase()) };
        }
        let stage = self.state.index();
        self.state.advance();
        (Layout::<STAGES, St>::data(self.base, stage), Layout::<STAGES, St>::full(self.base, stage))
    }
    #[device]
    pub(super) fn drain(mut self) {
        for _ in 0..STAGES {
            self.take(false);
        }
    }
}
