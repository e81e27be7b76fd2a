//! The filling end of a ring that a role fills with ordinary stores (CUTLASS `PipelineAsync`).

use super::{Filling, Name, ProducerEnd, Readers, Writes};
use crate::cta::ClusterShape;
use crate::cta::{Role, Warpgroup};
use crate::mma::Fragments;
use crate::mma::GROUP_ROWS;
use crate::ring::Stage;
use crate::tile::TileShape;
use core::marker::PhantomData;
use isa::device;

impl<const STAGES: usize, St: Stage, Ro: Role, Rd: Readers, Tag: Name, Cl: ClusterShape>
    ProducerEnd<STAGES, St, Writes<Ro>, Rd, Tag, Cl>
{
    /// Gives the end to a warp group of the role that writes.
    ///
    /// See the example of [`Writer`].
    #[inline(always)]
    pub fn by(self, group: &Warpgroup<Ro, Cl>) -> Writer<'_, STAGES, St, Ro, Rd, Tag, Cl> {
        Writer { at: Filling::start(self.base), group, ring: PhantomData }
    }
}

/// The filling end: its position in the ring, and the verbs acquire, commit and tail.
///
/// Waits for slots to be released. Signals full slots. (PTX `mbarrier.try_wait.parity`,
/// `mbarrier.arrive`; CUTLASS `PipelineAsync` with `PipelineState`, on the producer's side.)
///
/// ```
/// # use {half::bf16, pipeline::{prelude::*, ring::*}};
/// # names! { Main = "main loop" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Panel = Tile<bf16, 128, 64>; type Alone = Cluster<1, 1>;
///
/// fn fill(
///     end: ProducerEnd<4, (Panel,), Writes<Math>, Reads<Load>, Main, Alone>,
///     group: &Warpgroup<Math, Alone>,
/// ) {
///     let mut empty = end.by(group);
///     let mut slot = empty.acquire();
///     slot.put(0, [1.0; 8]);
///     slot.commit();
///     empty.tail();
/// }
/// ```
#[must_use]
pub struct Writer<'g, const STAGES: usize, St, Ro, Rd, Tag, Cl> {
    at: Filling<STAGES, St>,
    group: &'g Warpgroup<Ro, Cl>,
    ring: PhantomData<(Rd, Tag)>,
}

impl<'g, const STAGES: usize, St: Stage, Ro: Role, Rd: Readers, Tag: Name, Cl: ClusterShape>
    Writer<'g, STAGES, St, Ro, Rd, Tag, Cl>
{
    /// Takes the next slot and steps.
    ///
    /// Waits for every reader to have released the slot. (PTX `mbarrier.try_wait.parity` on the
    /// empty barrier, in a loop; CUTLASS `producer_acquire`.) See the example of [`Writer`].
    #[device]
    pub fn acquire(&mut self) -> WriteSlot<'g, St, Ro, Rd, Tag, Cl> {
        self.slot(false)
    }

    /// Looks whether the next slot is empty. The answer is the warp's: what its threads saw is
    /// compared, so that they can branch on it together. It belongs to that slot: while it is held
    /// the writer can't be used otherwise.
    ///
    /// Waits for nothing, or for as long as the hardware suspends the thread. (PTX
    /// `mbarrier.try_wait.parity`, once, and `vote.sync.all`; CUTLASS `producer_try_acquire`.) See
    /// the example of [`WritePeek`].
    #[device]
    pub fn try_acquire(&mut self) -> WritePeek<'_, 'g, STAGES, St, Ro, Rd, Tag, Cl> {
        // SAFETY: the group, and so the warp, is converged.
        let known = unsafe { isa::warp::vote_all(self.at.peek()) };
        WritePeek { known, writer: self }
    }

    #[device]
    fn slot(&mut self, known: bool) -> WriteSlot<'g, St, Ro, Rd, Tag, Cl> {
        let (data, full) = self.at.take(known);
        WriteSlot { data, full, group: self.group, ring: PhantomData }
    }

    /// Lets the ring run empty.
    ///
    /// Waits for every slot to have been released for the last time. (PTX
    /// `mbarrier.try_wait.parity`, `STAGES` times; CUTLASS `producer_tail`.) See the example of
    /// [`Writer`].
    #[device]
    pub fn tail(self) {
        self.at.drain();
    }
}

/// What [`Writer::try_acquire`] saw.
///
/// (CUTLASS `ProducerToken`.)
///
/// ```
/// # use {half::bf16, pipeline::{prelude::*, ring::*}};
/// # names! { Main = "main loop" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Panel = Tile<bf16, 128, 64>; type Alone = Cluster<1, 1>;
///
/// fn fill(empty: &mut Writer<'_, 4, (Panel,), Math, Reads<Load>, Main, Alone>) {
///     let peek = empty.try_acquire();
///     let _may_wait = !peek.ready();
///     let mut slot = peek.acquire();
///     slot.put(0, [1.0; 8]);
///     slot.commit();
/// }
/// ```
#[must_use = "a peek is finished with `acquire`"]
pub struct WritePeek<'p, 'g, const STAGES: usize, St, Ro, Rd, Tag, Cl> {
    known: bool,
    writer: &'p mut Writer<'g, STAGES, St, Ro, Rd, Tag, Cl>,
}

impl<'g, const STAGES: usize, St: Stage, Ro: Role, Rd: Readers, Tag: Name, Cl: ClusterShape>
    WritePeek<'_, 'g, STAGES, St, Ro, Rd, Tag, Cl>
{
    /// Whether the slot was empty.
    ///
    /// (CUTLASS `ProducerToken`'s `BarrierStatus`.) See the example of [`WritePeek`].
    pub fn ready(&self) -> bool {
        self.known
    }
    /// Takes the slot that was looked at, waiting for it only if it was not empty then.
    ///
    /// Waits for the slot's release, if it was not seen. (PTX: none, or as [`Writer::acquire`];
    /// CUTLASS `producer_acquire(state, token)`.) See the example of [`WritePeek`].
    #[device]
    pub fn acquire(self) -> WriteSlot<'g, St, Ro, Rd, Tag, Cl> {
        self.writer.slot(self.known)
    }
}

/// An acquired slot, to be filled with ordinary stores.
///
/// (CUTLASS: the stage's part of `SharedStorage`, after `producer_acquire`.)
///
/// ```
/// # use {half::bf16, pipeline::{prelude::*, ring::*}};
/// # names! { Main = "main loop" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Panel = Tile<bf16, 128, 64>; type Alone = Cluster<1, 1>;
///
/// fn fill(mut slot: WriteSlot<'_, (Panel,), Math, Reads<Load>, Main, Alone>, sums: [[f32; 8]; 4]) {
///     for strip in 0..4 {
///         slot.put(strip, sums[strip]);
///     }
///     slot.commit();
/// }
/// ```
#[must_use = "an acquired slot that is never committed stops the ring"]
pub struct WriteSlot<'g, St, Ro, Rd, Tag, Cl> {
    data: u32,
    full: u32,
    group: &'g Warpgroup<Ro, Cl>,
    ring: PhantomData<(St, Rd, Tag)>,
}

impl<T: TileShape, Ro: Role, Rd: Readers, Tag: Name, Cl: ClusterShape>
    WriteSlot<'_, (T,), Ro, Rd, Tag, Cl>
where
    T::Element: Fragments,
{
    /// Writes this warp's strip number `fragment` of the slot's panel, whose rows 64i.. belong to warp
    /// group i.
    ///
    /// (PTX `stmatrix.sync.aligned.m8n8.x4`; f32: `st.shared.v2`; CUTLASS `copy` with
    /// `SM90_U32x4_STSM_N`.) See the example of [`WriteSlot`].
    #[device]
    pub fn put(&mut self, strip: usize, values: [f32; 8]) {
        const {
            assert!(
                T::ROWS == GROUP_ROWS * Ro::GROUPS,
                "the panel has 64 rows for each warp group"
            );
        }
        let warp_row = self.group.index() * GROUP_ROWS as u32 + self.group.thread() / 32 * 16;
        // SAFETY: the slot is acquired, and the group converged.
        unsafe { T::Element::store_fragment(self.data, warp_row, strip as u32, values) }
    }
}

impl<T: TileShape, const COUNT: usize, Ro: Role, Rd: Readers, Tag: Name, Cl: ClusterShape>
    WriteSlot<'_, [T; COUNT], Ro, Rd, Tag, Cl>
where
    T::Element: Fragments,
{
    /// Writes this warp's strip number `fragment` of the group's own panel: warp group i fills panel i.
    ///
    /// (PTX `stmatrix.sync.aligned.m8n8.x4`; f32: `st.shared.v2`; CUTLASS `copy` with
    /// `SM90_U32x4_STSM_N`.) See the example of [`WriteSlot`].
    #[device]
    pub fn put(&mut self, strip: usize, values: [f32; 8]) {
        const {
            assert!(
                COUNT == Ro::GROUPS && T::ROWS == GROUP_ROWS,
                "the slot has one panel of 64 rows for each warp group that writes"
            );
        }
        let panel = self.data + self.group.index() * T::BYTES as u32;
        // SAFETY: the slot is acquired, the panel the group's own, and the group converged.
        unsafe {
            T::Element::store_fragment(panel, self.group.thread() / 32 * 16, strip as u32, values);
        }
    }
}

impl<St: Stage, Ro: Role, Rd: Readers, Tag: Name, Cl: ClusterShape>
    WriteSlot<'_, St, Ro, Rd, Tag, Cl>
{
    /// Hands the slot to its readers: where these read through the async proxy, every thread fences
    /// its stores; the warp meets, and one lane arrives.
    ///
    /// Waits for the other lanes of the warp. Signals one arrival of each warp on the full barrier.
    /// (PTX `fence.proxy.async.shared::cta` if the readers are wgmmas, `bar.warp.sync`,
    /// `mbarrier.arrive`; CUTLASS `producer_commit`, with `fence_view_async_shared` before it.) See
    /// the example of [`WriteSlot`].
    #[device]
    pub fn commit(self) {
        if Rd::ASYNC {
            isa::fence::proxy_async_shared_cta();
        }
        // SAFETY: the group is converged; the warp's stores are before this point in every lane.
        unsafe {
            isa::warp::sync_warp(u32::MAX);
            if isa::warp::lane_id() == 0 {
                isa::mbarrier::arrive(self.full);
            }
        }
    }
}
