//! The memory layout of a ring, and the state that all kinds of producer share.
//!
//! Invariant: a producer's state advances exactly once for each slot that it acquires.

use crate::ring::Stage;
use crate::ring::{PipelineState, ProducerSide};
use core::marker::PhantomData;
use isa::device;

/// Addresses inside a ring of `STAGES` slots of `St`: the slots, then what lies beside them, then the full barriers,
/// then the empty barriers, 8 bytes each.
pub(super) struct Layout<const STAGES: usize, St>(PhantomData<St>);

impl<const STAGES: usize, St: Stage> Layout<STAGES, St> {
    pub(super) const BESIDE: u32 = (STAGES * St::SLOT_BYTES) as u32;
    const FULL: u32 = Self::BESIDE + (STAGES * St::BESIDE_BYTES) as u32;
    const EMPTY: u32 = Self::FULL + 8 * STAGES as u32;

    #[isa::forceinline]
    const fn data(base: u32, stage: u32) -> u32 {
        base + stage * St::SLOT_BYTES as u32
    }
    /// The address of a slot's data; on the model it knows the slot, so that an access beyond it is
    /// found.
    #[isa::forceinline]
    pub(super) fn slot(base: u32, stage: u32) -> u32 {
        isa::debug::region("slot of a ring", Self::data(base, stage), St::SLOT_BYTES as u32)
    }
    /// The address of a slot in units of 16 bytes. A ring is aligned to more, and tiles have a multiple of 128 bytes.
    #[isa::forceinline]
    pub(super) const fn unit(base: u32, stage: u32) -> u32 {
        Self::data(base, stage) / 16
    }
    /// The slot at address `unit`, in units of 16 bytes.
    #[isa::forceinline]
    pub(super) fn slot_at(unit: u32) -> u32 {
        // SAFETY: `unit` is an address divided by 16, so the product is that address and does not overflow.
        let data = unsafe { unit.unchecked_mul(16) };
        isa::debug::region("slot of a ring", data, St::SLOT_BYTES as u32)
    }
    /// The address of what lies beside a slot; 0 if nothing does.
    #[isa::forceinline]
    pub(super) fn beside(base: u32, stage: u32) -> u32 {
        if St::BESIDE_BYTES == 0 {
            return 0;
        }
        let (at, bytes) = (base + Self::BESIDE, St::BESIDE_BYTES as u32);
        isa::debug::region("what lies beside a slot", at + stage * bytes, bytes)
    }
    #[isa::forceinline]
    pub(super) const fn full(base: u32, stage: u32) -> u32 {
        base + Self::FULL + 8 * stage
    }
    #[isa::forceinline]
    pub(super) const fn empty(base: u32, stage: u32) -> u32 {
        base + Self::EMPTY + 8 * stage
    }
}

/// The position of a producer of any kind, and what `acquire`, `try_acquire` and `tail` have in
/// common.
pub(super) struct ProducerPosition<const STAGES: usize, St> {
    base: u32,
    state: PipelineState<STAGES, ProducerSide>,
    stage: PhantomData<St>,
}

impl<const STAGES: usize, St: Stage> ProducerPosition<STAGES, St> {
    #[isa::forceinline]
    pub(super) fn start(base: u32) -> Self {
        Self { base, state: PipelineState::start(), stage: PhantomData }
    }
    fn empty(&self) -> u32 {
        Layout::<STAGES, St>::empty(self.base, self.state.index())
    }
    /// Tests whether the next slot is empty. May suspend the thread for a time limit that the
    /// hardware sets (`mbarrier.try_wait.parity`).
    #[device]
    pub(super) fn peek(&self) -> bool {
        // SAFETY: the plan initialised the barrier.
        unsafe { isa::mbarrier::try_wait_parity(self.empty(), self.state.phase()) }
    }
    /// Takes the next slot and advances. Returns the addresses of the slot's data and of its full
    /// barrier.
    ///
    /// Waits until the slot is empty, unless `ready` says that a test has already seen it empty.
    #[device]
    pub(super) fn take(&mut self, ready: bool) -> (u32, u32) {
        if !ready {
            // SAFETY: the plan initialised the barrier; the state tracks its phase.
            unsafe { isa::mbarrier::wait_parity(self.empty(), self.state.phase()) };
        }
        let stage = self.state.index();
        self.state.advance();
        (Layout::<STAGES, St>::slot(self.base, stage), Layout::<STAGES, St>::full(self.base, stage))
    }
    /// The address of what lies beside the slot that is taken next.
    #[isa::forceinline]
    pub(super) fn beside(&self) -> u32 {
        Layout::<STAGES, St>::beside(self.base, self.state.index())
    }
    /// The stage of the slot that was taken last.
    #[isa::forceinline]
    pub(super) fn taken(&self) -> u32 {
        let next = self.state.index();
        if next == 0 { STAGES as u32 - 1 } else { next - 1 }
    }
    /// Waits until every slot has been released for the last time.
    #[device]
    pub(super) fn tail(mut self) {
        for _ in 0..STAGES {
            self.take(false);
        }
    }
}
