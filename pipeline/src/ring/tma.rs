//! The filling end of a ring that one thread's TMA loads fill (CUTLASS `PipelineTmaAsync`).

use super::{Filling, Name, ProducerEnd, Readers, Tma};
use crate::cta::ClusterShape;
use crate::cta::{Elected, Role};
use crate::ring::{LoadsInto, Stage};
use core::marker::PhantomData;
use isa::device;

impl<const STAGES: usize, St: Stage, Rd: Readers, Tag: Name, Cl: ClusterShape>
    ProducerEnd<STAGES, St, Tma, Rd, Tag, Cl>
{
    /// Gives the end to an elected thread.
    ///
    /// See the example of [`ProducerEnd`].
    #[inline(always)]
    pub fn by<Ro: Role>(self, _one: &Elected<Ro, Cl>) -> Producer<STAGES, St, Tag> {
        Producer { at: Filling::start(self.base), name: PhantomData }
    }
}

/// The filling end: its position in the ring, and the verbs acquire, load and tail.
///
/// Waits for slots to be released. Signals full slots. (PTX `mbarrier.try_wait.parity`,
/// `mbarrier.arrive.expect_tx`, `cp.async.bulk.tensor.2d`; CUTLASS `PipelineTmaAsync` with
/// `PipelineState`, on the producer's side.)
///
/// ```
/// # use {half::bf16, pipeline::{prelude::*, ring::*}};
/// # names! { Main = "main loop" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Panel = Tile<bf16, 128, 64>; type Alone = Cluster<1, 1>;
///
/// fn fill(mut empty: Producer<4, (Panel,), Main>, from: &TensorMap<Panel>) {
///     for step in 0..9 {
///         empty.acquire().load((from.tile(128 * step, 0, Peers::ALONE),));
///     }
///     empty.tail();
/// }
/// ```
#[must_use]
pub struct Producer<const STAGES: usize, St, Tag> {
    at: Filling<STAGES, St>,
    name: PhantomData<(Tag, *const ())>,
}

impl<const STAGES: usize, St: Stage, Tag: Name> Producer<STAGES, St, Tag> {
    /// Takes the next slot and steps.
    ///
    /// Waits for every reader, here and at sharing peers, to have released the slot. (PTX
    /// `mbarrier.try_wait.parity` on the empty barrier, in a loop; CUTLASS `producer_acquire`,
    /// before the arming.) See the example of [`Producer`].
    #[device]
    pub fn acquire(&mut self) -> EmptySlot<St, Tag> {
        self.slot(false)
    }

    /// Looks whether the next slot is empty, without waiting for long. The answer belongs to that
    /// slot: while it is held the producer can't be used otherwise.
    ///
    /// Waits for nothing, or for as long as the hardware suspends the thread. (PTX
    /// `mbarrier.try_wait.parity`, once; CUTLASS `producer_try_acquire`.) See the example of
    /// [`AcquirePeek`].
    #[device]
    pub fn try_acquire(&mut self) -> AcquirePeek<'_, STAGES, St, Tag> {
        AcquirePeek { known: self.at.peek(), producer: self }
    }

    #[device]
    fn slot(&mut self, known: bool) -> EmptySlot<St, Tag> {
        let (data, full) = self.at.take(known);
        EmptySlot { data, full, ring: PhantomData }
    }

    /// Lets the ring run empty: no reader of a peer CTA will arrive at this CTA's barriers again,
    /// so that it may exit.
    ///
    /// Waits for every slot to have been released for the last time. (PTX
    /// `mbarrier.try_wait.parity`, `STAGES` times; CUTLASS `producer_tail`.) See the example of
    /// [`Producer`].
    #[device]
    pub fn tail(self) {
        self.at.drain();
    }
}

/// What [`Producer::try_acquire`] saw.
///
/// (CUTLASS `ProducerToken`.)
///
/// ```
/// # use {half::bf16, pipeline::{prelude::*, ring::*}};
/// # names! { Main = "main loop" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Panel = Tile<bf16, 128, 64>; type Alone = Cluster<1, 1>;
///
/// fn fill(empty: &mut Producer<4, (Panel,), Main>, from: &TensorMap<Panel>) {
///     let peek = empty.try_acquire();
///     let _may_wait = !peek.ready();
///     peek.acquire().load((from.tile(0, 0, Peers::ALONE),));
/// }
/// ```
#[must_use = "a peek is finished with `acquire`"]
pub struct AcquirePeek<'p, const STAGES: usize, St, Tag> {
    known: bool,
    producer: &'p mut Producer<STAGES, St, Tag>,
}

impl<const STAGES: usize, St: Stage, Tag: Name> AcquirePeek<'_, STAGES, St, Tag> {
    /// Whether the slot was empty.
    ///
    /// (CUTLASS `ProducerToken`'s `BarrierStatus`.) See the example of [`AcquirePeek`].
    pub fn ready(&self) -> bool {
        self.known
    }
    /// Takes the slot that was looked at, waiting for it only if it was not empty then.
    ///
    /// Waits for the slot's release, if it was not seen. (PTX: none, or as [`Producer::acquire`];
    /// CUTLASS `producer_acquire(state, token)`.) See the example of [`AcquirePeek`].
    #[device]
    pub fn acquire(self) -> EmptySlot<St, Tag> {
        self.producer.slot(self.known)
    }
}

/// An acquired slot: nobody reads it, nothing is in it.
///
/// (CUTLASS `producer_get_barrier(state)`, and the stage's part of `SharedStorage`.)
///
/// ```
/// # use {half::bf16, pipeline::{prelude::*, ring::*}};
/// # names! { Main = "main loop" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Panel = Tile<bf16, 128, 64>; type Alone = Cluster<1, 1>;
///
/// fn fill(slot: EmptySlot<(Panel, Panel), Main>, a: &TensorMap<Panel>, b: &TensorMap<Panel>) {
///     slot.load((a.tile(0, 64, Peers::ALONE), b.tile(0, 64, Peers::ALONE)));
/// }
/// ```
#[must_use = "an acquired slot that is never loaded stops the ring"]
pub struct EmptySlot<St, Tag> {
    data: u32,
    full: u32,
    ring: PhantomData<(St, Tag, *const ())>,
}

impl<St: Stage, Tag: Name> EmptySlot<St, Tag> {
    /// Arms the slot's full barrier with the bytes of `St` (`mbarrier.arrive.expect_tx`) and issues
    /// one TMA load for each of its tiles, which complete on that barrier.
    ///
    /// The byte count is the type's, and there is a load for every tile, so the phase can neither
    /// stay open nor close early. With multicast each CTA of the group loads its slice and receives
    /// the whole tile.
    ///
    /// Signals the full barrier: this thread's arrival and, when they land, the bytes, here and at
    /// the peers that the loads reach. (PTX `mbarrier.arrive.expect_tx`; for each tile
    /// `cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes`,
    /// `.multicast::cluster` for several peers; CUTLASS: the arming of `producer_acquire`,
    /// `producer_get_barrier`, `copy`, and the `producer_commit` that TMA makes itself.) See the
    /// example of [`EmptySlot`].
    #[device]
    pub fn load<L: LoadsInto<St>>(self, loads: L) {
        // SAFETY: the slot is acquired: its barrier is between phases and its memory is free, at
        // this CTA and, by the empty barrier's count, at every peer that the loads reach.
        unsafe {
            isa::mbarrier::arrive_expect_tx(self.full, St::BYTES as u32);
            loads.issue(self.data, self.full);
        }
    }
}
