//! The producer of a ring that TMA fills, driven by one elected thread (CUTLASS
//! `PipelineTmaAsync`).
//!
//! Invariant: an acquired slot is armed with the bytes of all its tiles before their loads are
//! issued.

use super::{Name, ProducerEnd, ProducerPosition, Readers, Tma};
use crate::cta::ClusterShape;
use crate::cta::{Elected, Role};
use crate::ring::{LoadsInto, Stage};
use core::marker::PhantomData;
use isa::device;

impl<const STAGES: usize, St: Stage, Rd: Readers, Tag: Name, Cl: ClusterShape>
    ProducerEnd<STAGES, St, Tma, Rd, Tag, Cl>
{
    /// Binds the end to an elected thread.
    ///
    /// See the example of [`ProducerEnd`].
    #[isa::forceinline]
    pub fn by<Ro: Role>(self, _one: &Elected<Ro, Cl>) -> Producer<STAGES, St, Tag> {
        Producer { at: ProducerPosition::start(self.base), name: PhantomData }
    }
}

/// The producer of a ring filled by TMA: its position in the ring, and the verbs `acquire`,
/// `try_acquire` and `tail`.
///
/// Waits for empty slots and signals full ones. (PTX `mbarrier.try_wait.parity`,
/// `mbarrier.arrive.expect_tx`, `cp.async.bulk.tensor.2d`; CUTLASS: the producer's side of
/// `PipelineTmaAsync` and its `PipelineState`.)
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{prelude::*, ring::*}};
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
    at: ProducerPosition<STAGES, St>,
    name: PhantomData<(Tag, *const ())>,
}

impl<const STAGES: usize, St: Stage, Tag: Name> Producer<STAGES, St, Tag> {
    /// Acquires the next slot and advances.
    ///
    /// Waits until every reader has released the slot, in this CTA and in the peers that its loads
    /// reach. (PTX `mbarrier.try_wait.parity` on the empty barrier, in a loop; CUTLASS:
    /// `producer_acquire` without the arming.) See the example of [`Producer`].
    #[device]
    pub fn acquire(&mut self) -> EmptySlot<St, Tag> {
        self.slot(false)
    }

    /// Tests whether the next slot is empty.
    ///
    /// The result belongs to that slot, and the producer can't be used while it exists.
    ///
    /// The test may suspend the thread for a time limit that the hardware sets. (PTX
    /// `mbarrier.try_wait.parity`, once; CUTLASS `producer_try_acquire`.) See the example of
    /// [`AcquirePeek`].
    #[device]
    pub fn try_acquire(&mut self) -> AcquirePeek<'_, STAGES, St, Tag> {
        AcquirePeek { ready: self.at.peek(), producer: self }
    }

    #[device]
    fn slot(&mut self, ready: bool) -> EmptySlot<St, Tag> {
        let beside = self.at.beside();
        let (data, full) = self.at.take(ready);
        isa::debug::hold(full, "slot of ring", Tag::NAME, self.at.taken(), "loaded");
        EmptySlot { data, beside, full, ring: PhantomData }
    }

    /// Waits until every slot has been released for the last time.
    ///
    /// After that no reader of a peer CTA arrives at this CTA's barriers again, so the CTA may
    /// exit.
    ///
    /// (PTX `mbarrier.try_wait.parity`, `STAGES` times; CUTLASS `producer_tail`.) See the example
    /// of [`Producer`].
    #[device]
    pub fn tail(self) {
        self.at.tail();
    }
}

/// The result of [`Producer::try_acquire`].
///
/// (CUTLASS `ProducerToken`.)
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{prelude::*, ring::*}};
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
    ready: bool,
    producer: &'p mut Producer<STAGES, St, Tag>,
}

impl<const STAGES: usize, St: Stage, Tag: Name> AcquirePeek<'_, STAGES, St, Tag> {
    /// Returns whether the test found the slot empty.
    ///
    /// (CUTLASS `ProducerToken`'s `BarrierStatus`.) See the example of [`AcquirePeek`].
    pub fn ready(&self) -> bool {
        self.ready
    }
    /// Acquires the tested slot.
    ///
    /// Waits until the slot is empty, unless the test found it empty. (PTX: as
    /// [`Producer::acquire`], or nothing after a successful test; CUTLASS `producer_acquire(state,
    /// token)`.) See the example of [`AcquirePeek`].
    #[device]
    pub fn acquire(self) -> EmptySlot<St, Tag> {
        self.producer.slot(self.ready)
    }
}

/// An acquired slot: no reader uses it, and TMA may fill it.
///
/// (CUTLASS: `producer_get_barrier(state)` and the stage's part of `SharedStorage`.)
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{prelude::*, ring::*}};
/// # names! { Main = "main loop" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Panel = Tile<bf16, 128, 64>; type Alone = Cluster<1, 1>;
///
/// fn fill(slot: EmptySlot<(Panel, Panel), Main>, a: &TensorMap<Panel>, b: &TensorMap<Panel>) {
///     slot.load((a.tile(0, 64, Peers::ALONE), b.tile(0, 64, Peers::ALONE)));
/// }
/// ```
#[must_use = "an acquired slot that is never loaded stops the ring: call `load`"]
pub struct EmptySlot<St, Tag> {
    data: u32,
    beside: u32,
    full: u32,
    ring: PhantomData<(St, Tag, *const ())>,
}

impl<St: Stage, Tag: Name> EmptySlot<St, Tag> {
    /// Arms the slot's full barrier with the bytes of `St` and issues one TMA load for each tile.
    /// The loads complete on that barrier.
    ///
    /// The type gives the byte count, and every tile has its load, so the phase completes exactly
    /// when all tiles have landed. With multicast, each CTA that shares a tile loads a part of it,
    /// or the CTAs load it in turn ([`TensorMap`](crate::tile::TensorMap)), and each receives the whole.
    ///
    /// Signals the full barrier: one arrival by this thread, and the transaction bytes when they
    /// land, here and in the peers that the loads reach. (PTX `mbarrier.arrive.expect_tx`, then for
    /// each tile `cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes`,
    /// with `.multicast::cluster` if the tile is shared; CUTLASS: the arming in `producer_acquire`,
    /// `producer_get_barrier`, `copy`, and the `producer_commit` that TMA performs itself.) See the
    /// example of [`EmptySlot`].
    #[device]
    pub fn load<L: LoadsInto<St>>(self, loads: L) {
        isa::debug::let_go(self.full);
        // SAFETY: the slot is acquired, so its barrier is between phases and its memory is free.
        // The empty barrier counts the peers' readers too, so the same holds in every peer that the
        // loads reach.
        unsafe {
            loads.store(self.beside);
            isa::mbarrier::arrive_expect_tx(self.full, St::BYTES as u32);
            loads.issue(self.data, self.beside, self.full);
        }
    }
}
