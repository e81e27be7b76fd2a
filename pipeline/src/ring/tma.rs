//! The filling end of a ring that one thread's TMA loads fill (CUTLASS `PipelineTmaAsync`).

use super::{Filling, Name, ProducerEnd, Readers, Tma};
use crate::cluster::ClusterShape;
use crate::roles::{Elected, Role};
use crate::stage::{LoadsInto, Stage};
use core::marker::PhantomData;

impl<const STAGES: usize, S: Stage, R: Readers, N: Name, K: ClusterShape>
    ProducerEnd<STAGES, S, Tma, R, N, K>
{
    /// Gives the end to an elected thread.
    #[inline(always)]
    pub fn by<Ro: Role>(self, _one: &Elected<Ro, K>) -> Producer<STAGES, S, N> {
        Producer { at: Filling::start(self.base), name: PhantomData }
    }
}

/// The filling end.
#[must_use]
pub struct Producer<const STAGES: usize, S, N> {
    at: Filling<STAGES, S>,
    name: PhantomData<(N, *const ())>,
}

impl<const STAGES: usize, S: Stage, N: Name> Producer<STAGES, S, N> {
    /// Waits until every reader, here and at sharing peers, has released the next slot
    /// (`mbarrier.try_wait.parity` on its empty barrier), takes it and steps.
    /// (CUTLASS `producer_acquire`, before the arming.)
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn acquire(&mut self) -> EmptySlot<S, N> {
        self.slot(false)
    }

    /// Looks whether the next slot is empty, without waiting for long (CUTLASS
    /// `producer_try_acquire`). The answer belongs to that slot: while it is held the producer can't
    /// be used otherwise.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn try_acquire(&mut self) -> AcquirePeek<'_, STAGES, S, N> {
        AcquirePeek { known: self.at.peek(), producer: self }
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn slot(&mut self, known: bool) -> EmptySlot<S, N> {
        let (data, full) = self.at.take(known);
        EmptySlot { data, full, ring: PhantomData }
    }

    /// Waits until every slot has been released for the last time, and so until no reader of a peer
    /// CTA will arrive at this CTA's barriers again: it may exit (CUTLASS `producer_tail`).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn tail(self) {
        self.at.drain();
    }
}

/// What [`Producer::try_acquire`] saw.
#[must_use = "a peek is finished with `acquire`"]
pub struct AcquirePeek<'p, const STAGES: usize, S, N> {
    known: bool,
    producer: &'p mut Producer<STAGES, S, N>,
}

impl<const STAGES: usize, S: Stage, N: Name> AcquirePeek<'_, STAGES, S, N> {
    /// Whether the slot was empty.
    pub fn ready(&self) -> bool {
        self.known
    }
    /// Takes the slot that was looked at, waiting for it only if it was not empty then.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn acquire(self) -> EmptySlot<S, N> {
        self.producer.slot(self.known)
    }
}

/// An acquired slot: nobody reads it, nothing is in it.
#[must_use = "an acquired slot that is never loaded stops the ring"]
pub struct EmptySlot<S, N> {
    data: u32,
    full: u32,
    ring: PhantomData<(S, N, *const ())>,
}

impl<S: Stage, N: Name> EmptySlot<S, N> {
    /// Arms the slot's full barrier with the bytes of `S` (`mbarrier.arrive.expect_tx`) and issues
    /// one TMA load for each of its tiles, which complete on that barrier. Waits for nothing.
    ///
    /// The byte count is the type's, and there is a load for every tile, so the phase can neither
    /// stay open nor close early. With multicast each CTA of the group loads its slice and receives
    /// the whole tile. (CUTLASS `producer_acquire`'s arming, `producer_get_barrier`, `copy`, and the
    /// `producer_commit` that TMA makes itself.)
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn load<L: LoadsInto<S>>(self, loads: L) {
        // SAFETY: the slot is acquired: its barrier is between phases and its memory is free, at
        // this CTA and, by the empty barrier's count, at every peer that the loads reach.
        unsafe {
            isa::mbarrier::arrive_expect_tx(self.full, S::BYTES as u32);
            loads.issue(self.data, self.full);
        }
    }
}
