//! The position of one end in its ring: [`PipelineState`].
//!
//! Invariant: after `count` steps, the slot is `count` mod `STAGES`, and the phase has flipped once
//! for each full pass.

use core::marker::PhantomData;

/// The producer's side. It starts at phase 1.
///
/// The first pass over a ring must not wait: on a fresh mbarrier the phase of parity 1 counts as
/// already completed.
///
/// (CUTLASS `make_producer_start_state`.)
///
/// ```
/// use warpipe_pipeline::ring::{PipelineState, ProducerSide};
/// assert_eq!(PipelineState::<4, ProducerSide>::start().phase(), 1);
/// ```
#[derive(Debug)]
pub enum ProducerSide {}
/// The consumer's side. It starts at phase 0.
///
/// It must wait for the first fill.
///
/// (CUTLASS `PipelineState`'s default constructor.)
///
/// ```
/// use warpipe_pipeline::ring::{ConsumerSide, PipelineState};
/// assert_eq!(PipelineState::<4, ConsumerSide>::start().phase(), 0);
/// ```
#[derive(Debug)]
pub enum ConsumerSide {}

mod sealed {
    pub trait Side {
        const FIRST_PHASE: u32;
    }
    impl Side for super::ProducerSide {
        const FIRST_PHASE: u32 = 1;
    }
    impl Side for super::ConsumerSide {
        const FIRST_PHASE: u32 = 0;
    }
}
/// The side of a ring to which a position belongs: [`ProducerSide`] or [`ConsumerSide`].
///
/// ```
/// use warpipe_pipeline::ring::{PipelineState, Side};
/// fn turns<const STAGES: usize, S: Side>(state: &PipelineState<STAGES, S>) -> u32 {
///     state.count() / STAGES as u32
/// }
/// ```
pub trait Side: sealed::Side {}
impl<T: sealed::Side> Side for T {}

/// Index and phase of the slot that one end of a ring uses next.
///
/// The side is part of the type and fixes the starting phase. Only [`advance`](Self::advance) and
/// [`advance_by`](Self::advance_by) change the position. The ends of a [`Ring`](crate::ring::Ring)
/// keep their own state, so a kernel needs this type only for a lagging or leading copy of a
/// position.
///
/// (CUTLASS `PipelineState<Stages>`.)
///
/// ```
/// use warpipe_pipeline::ring::{ConsumerSide, PipelineState, ProducerSide};
/// let mut fill = PipelineState::<3, ProducerSide>::start();
/// let mut drain = PipelineState::<3, ConsumerSide>::start();
/// assert_eq!((fill.index(), fill.phase()), (0, 1));
/// for _ in 0..3 { fill.advance(); }
/// drain.advance_by(7);
/// assert_eq!((fill.index(), fill.phase(), fill.count()), (0, 0, 3));
/// assert_eq!((drain.index(), drain.phase(), drain.count()), (1, 0, 7));
/// ```
#[derive(Debug)]
pub struct PipelineState<const STAGES: usize, S: Side> {
    index: u32,
    phase: u32,
    count: u32,
    side: PhantomData<S>,
}

impl<const STAGES: usize, S: Side> PipelineState<STAGES, S> {
    const STAGES_IN_RANGE: () =
        assert!(STAGES >= 1 && STAGES <= 32, "a ring has from 1 to 32 stages");

    /// Returns the position before the first step, at this side's starting phase.
    ///
    /// (CUTLASS `make_producer_start_state`, `PipelineState{}`.) See the example of
    /// [`PipelineState`].
    #[isa::forceinline]
    #[must_use]
    pub const fn start() -> Self {
        const { Self::STAGES_IN_RANGE };
        Self { index: 0, phase: S::FIRST_PHASE, count: 0, side: PhantomData }
    }

    /// Returns the slot's index, in `0..STAGES`.
    ///
    /// (CUTLASS `index()`.) See the example of [`PipelineState`].
    #[isa::forceinline]
    #[must_use]
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// Returns the parity to wait for on this slot's barrier: 0 or 1.
    ///
    /// (PTX: the parity operand of `mbarrier.try_wait.parity`; CUTLASS `phase()`.) See the example
    /// of [`PipelineState`].
    #[isa::forceinline]
    #[must_use]
    pub const fn phase(&self) -> u32 {
        self.phase
    }

    /// Returns the number of steps since [`start`](Self::start), modulo 2³².
    ///
    /// (CUTLASS `count()`.) See the example of [`PipelineState`].
    #[isa::forceinline]
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Advances by one slot. The phase flips after the last slot.
    ///
    /// (CUTLASS `operator++`.) See the example of [`PipelineState`].
    #[isa::forceinline]
    pub const fn advance(&mut self) {
        self.count = self.count.wrapping_add(1);
        self.index += 1;
        if self.index == STAGES as u32 {
            self.index = 0;
            self.phase ^= 1;
        }
    }

    /// Advances by `n` slots.
    ///
    /// (CUTLASS `advance(num_iterations)`.) See the example of [`PipelineState`].
    #[isa::forceinline]
    pub const fn advance_by(&mut self, n: u32) {
        self.count = self.count.wrapping_add(n);
        let stages = STAGES as u32;
        let turns = n / stages;
        self.index += n % stages;
        let wrapped = if self.index >= stages { 1 } else { 0 };
        self.index -= wrapped * stages;
        self.phase ^= (turns + wrapped) & 1;
    }
}

#[cfg(test)]
mod tests {
    use super::{ConsumerSide, PipelineState, ProducerSide};
    use proptest::prelude::*;

    fn jump_is_steps<const STAGES: usize>(before: u32, jump: u32) {
        let mut stepped = PipelineState::<STAGES, ConsumerSide>::start();
        let mut jumped = PipelineState::<STAGES, ConsumerSide>::start();
        for _ in 0..before {
            stepped.advance();
            jumped.advance();
        }
        for _ in 0..jump {
            stepped.advance();
        }
        jumped.advance_by(jump);
        assert_eq!(
            (stepped.index(), stepped.phase(), stepped.count()),
            (jumped.index(), jumped.phase(), jumped.count())
        );
        // The definition: slot = count mod STAGES, phase = the parity of the pass.
        assert_eq!(stepped.index(), (before + jump) % STAGES as u32);
        assert_eq!(stepped.phase(), (before + jump) / STAGES as u32 % 2);
    }

    proptest! {
        #[test]
        fn a_jump_is_as_many_steps(before in 0u32..200, jump in 0u32..1000) {
            jump_is_steps::<1>(before, jump);
            jump_is_steps::<2>(before, jump);
            jump_is_steps::<3>(before, jump);
            jump_is_steps::<7>(before, jump);
            jump_is_steps::<32>(before, jump);
        }
    }

    #[test]
    fn the_two_sides_start_a_phase_apart() {
        assert_eq!(PipelineState::<4, ProducerSide>::start().phase(), 1);
        assert_eq!(PipelineState::<4, ConsumerSide>::start().phase(), 0);
    }
}
