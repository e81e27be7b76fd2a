//! The producers of a ring whose slots a pair of CTAs multiplies: a thread of each CTA loads its part with TMA (CUTLASS:
//! the producers of `PipelineTmaUmmaAsync` with 2SM loads).
//!
//! Invariant: the loads of both CTAs complete on the full barrier of the CTA that leads. Its thread expects the bytes of
//! both.
//!
//! This is for Blackwell. It has never run on a chip.

use super::{Name, ProducerEnd, ProducerPosition, Umma, Writers, sealed::Sealed};
use crate::cta::{ClusterShape, Elected, Role, TwoSm};
use crate::ring::Stage;
use crate::tile::{Load, TileShape};
use core::marker::PhantomData;
use isa::device;

/// One elected thread of each CTA of a pair loads that CTA's part of every slot.
///
/// Waits for an empty slot. The thread of the leader signals one arrival, with the transaction bytes of both CTAs, on the
/// leader's full barrier; the loads of both complete there. (PTX `cp.async.bulk.tensor` with `.cta_group::2`; CUTLASS
/// `SM100_TMA_2SM_LOAD`.) See the example of [`PairProducer`].
#[derive(Clone, Copy, Debug)]
pub enum Tma2Sm {}
impl Sealed for Tma2Sm {}
impl<St: Stage> Writers<St> for Tma2Sm {
    const ARRIVALS: usize = 1;
    const PAIR: bool = true;
    const BY: &'static str = "the thread that loads in the CTA that leads, with the bytes of both";
}

impl<const STAGES: usize, St: Stage, Rm: Role, Tag: Name, Cl: ClusterShape>
    ProducerEnd<STAGES, St, Tma2Sm, Umma<Rm, TwoSm>, Tag, Cl>
{
    /// Binds the end to an elected thread of one CTA of the pair.
    ///
    /// See the example of [`PairProducer`].
    #[isa::forceinline]
    pub fn by<Ro: Role>(self, one: &Elected<Ro, Cl>) -> PairProducer<STAGES, St, Tag> {
        let leads = one.coord().leads();
        let there = isa::cluster::mapa(self.base, one.coord().rank() & !1);
        PairProducer {
            at: ProducerPosition::start(self.base),
            base: self.base,
            there,
            leads,
            name: PhantomData,
        }
    }
}

/// One CTA's producer of a ring that a pair multiplies: its position in the ring, and the verbs `acquire` and `tail`.
///
/// Waits for empty slots of its own CTA, which the leader's commit releases in both. (CUTLASS: the producer's side of
/// `PipelineTmaUmmaAsync`.)
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{prelude::*, cta::*, ring::*}};
/// # names! { Main = "main loop" } roles! { Work = 1 x 40 registers }
/// # type Rows = Tile<bf16, 128, 64>; type Pair = Cluster<2, 1>;
/// type MainLoop = Ring<6, (Rows, Rows), Tma2Sm, Umma<Work, TwoSm>, Main, Pair>;
///
/// /// A product of 256 x 256 by a pair: each CTA loads its 128 rows of A and its 128 columns of B.
/// fn fill(
///     one: &Elected<Work, Pair>,
///     end: ProducerEnd<6, (Rows, Rows), Tma2Sm, Umma<Work, TwoSm>, Main, Pair>,
///     (a, b): (&TensorMap<Rows>, &TensorMap<Rows>),
///     k_tiles: u32,
/// ) {
///     let mut empty = end.by(one);
///     let row = 128 * one.coord().m();
///     for k in 0..k_tiles {
///         empty.acquire().load((a.tile(row, 64 * k, Peers::ALONE), b.tile(row, 64 * k, Peers::ALONE)));
///     }
///     empty.tail();
/// }
/// # assert_eq!(SmemPlan::<(MainLoop,)>::BYTES, 6 * (2 * 128 * 128 + 16));
/// ```
#[must_use]
pub struct PairProducer<const STAGES: usize, St, Tag> {
    at: ProducerPosition<STAGES, St>,
    base: u32,
    /// The ring in the leader's shared memory.
    there: u32,
    leads: bool,
    name: PhantomData<(Tag, *const ())>,
}

impl<const STAGES: usize, St: Stage, Tag: Name> PairProducer<STAGES, St, Tag> {
    /// Acquires this CTA's part of the next slot and advances.
    ///
    /// Waits until the multiplications that read the slot have completed. (PTX `mbarrier.try_wait.parity` on the empty
    /// barrier, in a loop; CUTLASS: `producer_acquire` without the arming.) See the example of [`PairProducer`].
    #[device]
    pub fn acquire(&mut self) -> PairSlot<St, Tag> {
        let (data, full) = self.at.take(false);
        isa::debug::hold(full, "slot of ring", Tag::NAME, self.at.taken(), "loaded");
        let there = self.there + (full - self.base);
        PairSlot { data, full, there, leads: self.leads, ring: PhantomData }
    }

    /// Waits until every slot has been released for the last time.
    ///
    /// After that no multiplication reads this CTA's shared memory, so the CTA may exit. (PTX `mbarrier.try_wait.parity`,
    /// `STAGES` times; CUTLASS `producer_tail`.) See the example of [`PairProducer`].
    #[device]
    pub fn tail(self) {
        self.at.tail();
    }
}

/// One CTA's part of an acquired slot: no multiplication reads it, and TMA may fill it.
///
/// (CUTLASS: `producer_get_barrier(state)` and the stage's part of `SharedStorage`.) See the example of [`PairProducer`].
#[must_use = "an acquired slot that is never loaded stops the ring: call `load`"]
pub struct PairSlot<St, Tag> {
    data: u32,
    full: u32,
    /// The full barrier of the leader.
    there: u32,
    leads: bool,
    ring: PhantomData<(St, Tag, *const ())>,
}

impl<A: TileShape, B: TileShape, Tag: Name> PairSlot<(A, B), Tag> {
    /// Loads this CTA's rows of A and its columns of B. In the CTA that leads, arms the slot first, with the bytes of both
    /// CTAs.
    ///
    /// Signals the leader's full barrier: one arrival by the leader's thread, and the transaction bytes when they land.
    /// (PTX `mbarrier.arrive.expect_tx`, `cp.async.bulk.tensor.2d` with `.cta_group::2` for each tile; CUTLASS: the arming in
    /// `producer_acquire`, `copy`.) See the example of [`PairProducer`].
    #[device]
    pub fn load(self, (a, b): (Load<'_, A>, Load<'_, B>)) {
        let (data, there) = self.armed();
        // SAFETY: the slot is acquired and armed for these bytes. The leader exits after its multiplications.
        unsafe {
            a.issue_2sm(data, there);
            b.issue_2sm(data + A::BYTES as u32, there);
        }
    }
}

impl<A: TileShape, B: TileShape, Sa: TileShape, Sb: TileShape, Tag: Name>
    PairSlot<(A, B, Sa, Sb), Tag>
{
    /// As [`load`](PairSlot::load) of a slot of two tiles, with the block scales of this CTA's rows of A and those of all rows
    /// of B: the tensor memory of each CTA needs them all. (CUTLASS: the copies of SFA and SFB beside those of A and B.)
    #[device]
    pub fn load(self, (a, b, sfa, sfb): (Load<'_, A>, Load<'_, B>, Load<'_, Sa>, Load<'_, Sb>)) {
        let (data, there) = self.armed();
        let blocks = data + const { A::BYTES + B::BYTES } as u32;
        // SAFETY: as for two tiles.
        unsafe {
            a.issue_2sm(data, there);
            b.issue_2sm(data + A::BYTES as u32, there);
            sfa.issue_2sm(blocks, there);
            sfb.issue_2sm(blocks + Sa::BYTES as u32, there);
        }
    }
}

impl<St: Stage, Tag: Name> PairSlot<St, Tag> {
    /// Arms the slot in the CTA that leads; gives the slot's address and the leader's full barrier.
    #[device]
    fn armed(self) -> (u32, u32) {
        isa::debug::let_go(self.full);
        if self.leads {
            let both = 2 * St::BYTES as u32;
            // SAFETY: the slot is acquired. The leader's barrier is then between phases too: the commit that released the
            // slot here followed the leader's wait for it.
            unsafe { isa::mbarrier::arrive_expect_tx(self.full, both) };
        }
        (self.data, self.there)
    }
}
