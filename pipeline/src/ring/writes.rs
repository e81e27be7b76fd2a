//! The filling end of a ring that a role fills with ordinary stores (CUTLASS `PipelineAsync`).

use super::{Filling, Name, ProducerEnd, Readers, Writes};
use crate::cluster::ClusterShape;
use crate::fragment::Strips;
use crate::mma::GROUP_ROWS;
use crate::roles::{Role, Warpgroup};
use crate::stage::Stage;
use crate::tile::TileShape;
use core::marker::PhantomData;

impl<const STAGES: usize, S: Stage, Ro: Role, R: Readers, N: Name, K: ClusterShape>
    ProducerEnd<STAGES, S, Writes<Ro>, R, N, K>
{
    /// Gives the end to a warp group of the role that writes.
    #[inline(always)]
    pub fn by(self, group: &Warpgroup<Ro, K>) -> Writer<'_, STAGES, S, Ro, R, N, K> {
        Writer { at: Filling::start(self.base), group, ring: PhantomData }
    }
}

/// The filling end.
#[must_use]
pub struct Writer<'g, const STAGES: usize, S, Ro, R, N, K> {
    at: Filling<STAGES, S>,
    group: &'g Warpgroup<Ro, K>,
    ring: PhantomData<(R, N)>,
}

impl<'g, const STAGES: usize, S: Stage, Ro: Role, R: Readers, N: Name, K: ClusterShape>
    Writer<'g, STAGES, S, Ro, R, N, K>
{
    /// Waits until the next slot is released, takes it and steps (CUTLASS `producer_acquire`).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn acquire(&mut self) -> WriteSlot<'g, S, Ro, R, N, K> {
        let (data, full) = self.at.take(false);
        WriteSlot { data, full, group: self.group, ring: PhantomData }
    }

    /// Waits until every slot has been released for the last time.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn tail(self) {
        self.at.drain();
    }
}

/// An acquired slot, to be filled with ordinary stores.
#[must_use = "an acquired slot that is never committed stops the ring"]
pub struct WriteSlot<'g, S, Ro, R, N, K> {
    data: u32,
    full: u32,
    group: &'g Warpgroup<Ro, K>,
    ring: PhantomData<(S, R, N)>,
}

impl<P: TileShape, Ro: Role, R: Readers, N: Name, K: ClusterShape> WriteSlot<'_, (P,), Ro, R, N, K>
where
    P::Element: Strips,
{
    /// Writes this warp's strip number `strip` of the slot's panel, whose rows 64i.. belong to warp
    /// group i (`stmatrix.x4`; f32: `st.shared.v2`).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn put(&mut self, strip: usize, values: [f32; 8]) {
        const {
            assert!(
                P::ROWS == GROUP_ROWS * Ro::GROUPS,
                "the panel has 64 rows for each warp group"
            );
        }
        let warp_row = self.group.index() * GROUP_ROWS as u32 + self.group.thread() / 32 * 16;
        // SAFETY: the slot is acquired, and the group converged.
        unsafe { P::Element::store_strip(self.data, warp_row, strip as u32, values) }
    }
}

impl<P: TileShape, const COUNT: usize, Ro: Role, R: Readers, N: Name, K: ClusterShape>
    WriteSlot<'_, [P; COUNT], Ro, R, N, K>
where
    P::Element: Strips,
{
    /// Writes this warp's strip number `strip` of the group's own panel: warp group i fills panel i.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn put(&mut self, strip: usize, values: [f32; 8]) {
        const {
            assert!(
                COUNT == Ro::GROUPS && P::ROWS == GROUP_ROWS,
                "the slot has one panel of 64 rows for each warp group that writes"
            );
        }
        let panel = self.data + self.group.index() * P::BYTES as u32;
        // SAFETY: the slot is acquired, the panel the group's own, and the group converged.
        unsafe {
            P::Element::store_strip(panel, self.group.thread() / 32 * 16, strip as u32, values);
        }
    }
}

impl<S: Stage, Ro: Role, R: Readers, N: Name, K: ClusterShape> WriteSlot<'_, S, Ro, R, N, K> {
    /// Hands the slot to its readers: where these read through the async proxy, every thread fences
    /// its stores (`fence.proxy.async.shared::cta`); the warp meets, and one lane arrives on the full
    /// barrier (`mbarrier.arrive`). (CUTLASS `producer_commit`.)
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn commit(self) {
        if R::ASYNC {
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
