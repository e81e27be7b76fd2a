//! The filling ends of a ring whose tiles are loaded by different threads (CUTLASS
//! `PipelineTransactionAsync`): each arms the slot with its own tile's bytes, and the slot is full
//! when all have arrived and all bytes have landed.

use super::{Filling, Name, ProducerEnd, Readers, TmaParts};
use crate::cluster::ClusterShape;
use crate::roles::{Elected, Role};
use crate::stage::Stage;
use crate::tensor::Load;
use crate::tile::TileShape;
use core::marker::PhantomData;

impl<const STAGES: usize, A: TileShape, B: TileShape, R: Readers, N: Name, K: ClusterShape>
    ProducerEnd<STAGES, (A, B), TmaParts, R, N, K>
{
    /// The ends of the two tiles' threads, in the tiles' order.
    #[inline(always)]
    pub fn parts(self) -> PartEnds<STAGES, A, B, N, K> {
        (
            PartEnd { base: self.base, offset: 0, part: PhantomData },
            PartEnd { base: self.base, offset: A::BYTES as u32, part: PhantomData },
        )
    }
}

/// The two ends of a ring of two parts.
pub type PartEnds<const STAGES: usize, A, B, N, K> =
    (PartEnd<STAGES, (A, B), A, N, K>, PartEnd<STAGES, (A, B), B, N, K>);

/// The end for the thread that loads tile `T` of the stage `S`.
#[must_use]
pub struct PartEnd<const STAGES: usize, S, T, N, K> {
    base: u32,
    offset: u32,
    part: PhantomData<(S, T, N, K, *const ())>,
}

impl<const STAGES: usize, S: Stage, T: TileShape, N: Name, K: ClusterShape>
    PartEnd<STAGES, S, T, N, K>
{
    /// Gives the end to an elected thread.
    #[inline(always)]
    pub fn by<Ro: Role>(self, _one: &Elected<Ro, K>) -> PartProducer<STAGES, S, T, N> {
        PartProducer { at: Filling::start(self.base), offset: self.offset, part: PhantomData }
    }
}

/// One of the filling ends.
#[must_use]
pub struct PartProducer<const STAGES: usize, S, T, N> {
    at: Filling<STAGES, S>,
    offset: u32,
    part: PhantomData<(T, N, *const ())>,
}

impl<const STAGES: usize, S: Stage, T: TileShape, N: Name> PartProducer<STAGES, S, T, N> {
    /// Waits until the next slot is released, takes its part of it and steps.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn acquire(&mut self) -> PartSlot<T, N> {
        let (data, full) = self.at.take(false);
        PartSlot { data: data + self.offset, full, part: PhantomData }
    }

    /// Waits until every slot has been released for the last time.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn tail(self) {
        self.at.drain();
    }
}

/// One tile's part of an acquired slot.
#[must_use = "a part that is never loaded stops the ring"]
pub struct PartSlot<T, N> {
    data: u32,
    full: u32,
    part: PhantomData<(T, N, *const ())>,
}

impl<T: TileShape, N: Name> PartSlot<T, N> {
    /// Arms the slot with the tile's bytes and issues its load (CUTLASS
    /// `producer_expect_transaction`, `copy`, `producer_commit`).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn load<const SPLIT: usize>(self, load: Load<'_, T, SPLIT>) {
        // SAFETY: the part is acquired; the phase can't close before this thread's arrival, so the
        // other parts' bytes may land before or after.
        unsafe {
            isa::mbarrier::arrive_expect_tx(self.full, T::BYTES as u32);
            load.issue(self.data, self.full);
        }
    }
}
