//! The producers of a ring whose tiles are loaded by different threads (CUTLASS
//! `PipelineTransactionAsync`).
//!
//! Invariant: each thread arms the slot with its own tile's bytes. The slot is full when all
//! threads have arrived and all bytes have landed.

use super::{Name, ProducerEnd, ProducerPosition, Readers, TmaParts};
use crate::cta::{ClusterShape, Sharing};
use crate::cta::{Elected, Role};
use crate::ring::Stage;
use crate::tile::Load;
use crate::tile::TileShape;
use core::marker::PhantomData;
use isa::device;

impl<const STAGES: usize, St: Parts, Rd: Readers, Tag: Name, Cl: ClusterShape>
    ProducerEnd<STAGES, St, TmaParts, Rd, Tag, Cl>
{
    /// Splits the end into one end for each tile, in the tiles' order.
    ///
    /// See the example of [`Parts`].
    #[isa::forceinline]
    pub fn parts(self) -> St::Ends<STAGES, Tag, Cl> {
        St::ends(Undivided { base: self.base, ring: PhantomData })
    }
}

/// A slot type whose tiles can be loaded by one thread each: a tuple of up to four tiles, or an
/// array.
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{prelude::*, ring::*}};
/// # names! { Main = "main loop" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Alone = Cluster<1, 1>;
/// type A = Tile<bf16, 128, 64>;
/// type B = Tile<bf16, 64, 64>;
/// type St = (A, B, B);
///
/// fn apart(end: ProducerEnd<4, St, TmaParts, Mma<Math>, Main, Alone>) {
///     let (a, b, c) = end.parts();
///     let _for_one_warp: PartEnd<4, St, A, Main, Alone> = a;
///     let _for_two_others: [PartEnd<4, St, B, Main, Alone>; 2] = [b, c];
/// }
/// fn equal(end: ProducerEnd<4, [A; 2], TmaParts, Mma<Math>, Main, Alone>) {
///     let [_for_one_warp, _for_another] = end.parts();
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no parts that a thread each could load",
    label = "not a tuple of up to four tiles, and no array of tiles"
)]
pub trait Parts: Stage + Sized {
    /// One [`PartEnd`] for each tile.
    type Ends<const STAGES: usize, Tag: Name, Cl: ClusterShape>;
    /// Splits the end of a ring.
    #[doc(hidden)]
    fn ends<const STAGES: usize, Tag: Name, Cl: ClusterShape>(
        whole: Undivided<STAGES, Self, Tag, Cl>,
    ) -> Self::Ends<STAGES, Tag, Cl>;
}

/// The producer end of a ring before [`Parts::ends`] splits it.
#[doc(hidden)]
pub struct Undivided<const STAGES: usize, St, Tag, Cl> {
    base: u32,
    ring: PhantomData<(St, Tag, Cl, *const ())>,
}

macro_rules! parts {
    ($(($($tile:ident),+))+) => {$(
        impl<$($tile: TileShape),+> Parts for ($($tile,)+) {
            type Ends<const STAGES: usize, Tag: Name, Cl: ClusterShape> =
                ($(PartEnd<STAGES, Self, $tile, Tag, Cl>,)+);
            #[isa::forceinline]
            fn ends<const STAGES: usize, Tag: Name, Cl: ClusterShape>(
                whole: Undivided<STAGES, Self, Tag, Cl>,
            ) -> Self::Ends<STAGES, Tag, Cl> {
                let mut next = 0;
                let ends = ($({
                    let offset = next;
                    next += $tile::BYTES as u32;
                    PartEnd { base: whole.base, offset, part: PhantomData }
                },)+);
                let _end = next;
                ends
            }
        }
    )+};
}
parts! { (A) (A, B) (A, B, C) (A, B, C, D) }

impl<A: TileShape, const COUNT: usize> Parts for [A; COUNT] {
    type Ends<const STAGES: usize, Tag: Name, Cl: ClusterShape> =
        [PartEnd<STAGES, Self, A, Tag, Cl>; COUNT];
    #[isa::forceinline]
    fn ends<const STAGES: usize, Tag: Name, Cl: ClusterShape>(
        whole: Undivided<STAGES, Self, Tag, Cl>,
    ) -> Self::Ends<STAGES, Tag, Cl> {
        core::array::from_fn(|i| PartEnd {
            base: whole.base,
            offset: (i * A::BYTES) as u32,
            part: PhantomData,
        })
    }
}

/// The producer end of the thread that loads tile `T` of each slot of `St`.
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{prelude::*, ring::*}};
/// # names! { Main = "main loop" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Panel = Tile<bf16, 128, 64>; type Alone = Cluster<1, 1>;
///
/// # use warpipe_pipeline::{cta::Elected, tile::TileShape};
/// fn fill<T: TileShape>(
///     end: PartEnd<4, (Panel, Panel), T, Main, Alone>,
///     one: &Elected<Load, Alone>,
///     from: &TensorMap<T>,
/// ) {
///     let mut empty = end.by(one);
///     empty.acquire().load(from.tile(0, 0, Peers::ALONE));
///     empty.tail();
/// }
/// ```
#[must_use]
pub struct PartEnd<const STAGES: usize, St, T, Tag, Cl> {
    base: u32,
    offset: u32,
    part: PhantomData<(St, T, Tag, Cl, *const ())>,
}

impl<const STAGES: usize, St: Stage, T: TileShape, Tag: Name, Cl: ClusterShape>
    PartEnd<STAGES, St, T, Tag, Cl>
{
    /// Binds the end to an elected thread.
    ///
    /// See the example of [`PartEnd`].
    #[isa::forceinline]
    pub fn by<Ro: Role>(self, _one: &Elected<Ro, Cl>) -> PartProducer<STAGES, St, T, Tag> {
        PartProducer {
            at: ProducerPosition::start(self.base),
            offset: self.offset,
            part: PhantomData,
        }
    }
}

/// The producer of one tile of each slot: its position in the ring, and the verbs `acquire`,
/// `try_acquire` and `tail`.
///
/// Waits for empty slots. Signals one arrival and its tile's bytes on each full barrier. (PTX
/// `mbarrier.try_wait.parity`, `mbarrier.arrive.expect_tx`, `cp.async.bulk.tensor.2d`; CUTLASS: the
/// producer's side of `PipelineTransactionAsync` and its `PipelineState`.)
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{prelude::*, ring::*}};
/// # names! { Main = "main loop" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Panel = Tile<bf16, 128, 64>; type Alone = Cluster<1, 1>;
///
/// fn fill(mut empty: PartProducer<4, (Panel, Panel), Panel, Main>, from: &TensorMap<Panel>) {
///     for step in 0..9 {
///         empty.acquire().load(from.tile(128 * step, 0, Peers::ALONE));
///     }
///     empty.tail();
/// }
/// ```
#[must_use]
pub struct PartProducer<const STAGES: usize, St, T, Tag> {
    at: ProducerPosition<STAGES, St>,
    offset: u32,
    part: PhantomData<(T, Tag, *const ())>,
}

impl<const STAGES: usize, St: Stage, T: TileShape, Tag: Name> PartProducer<STAGES, St, T, Tag> {
    /// Acquires this thread's part of the next slot and advances.
    ///
    /// Waits until every reader has released the slot. (PTX `mbarrier.try_wait.parity` on the empty
    /// barrier, in a loop; CUTLASS `producer_acquire`.) See the example of [`PartProducer`].
    #[device]
    pub fn acquire(&mut self) -> PartSlot<T, Tag> {
        self.slot(false)
    }

    /// Tests whether the next slot is empty.
    ///
    /// The result belongs to that slot, and the producer can't be used while it exists.
    ///
    /// The test may suspend the thread for a time limit that the hardware sets. (PTX
    /// `mbarrier.try_wait.parity`, once; CUTLASS `producer_try_acquire`.) See the example of
    /// [`PartPeek`].
    #[device]
    pub fn try_acquire(&mut self) -> PartPeek<'_, STAGES, St, T, Tag> {
        PartPeek { ready: self.at.peek(), producer: self }
    }

    #[device]
    fn slot(&mut self, ready: bool) -> PartSlot<T, Tag> {
        let (data, full) = self.at.take(ready);
        let data = data + self.offset;
        // A thread may hold several parts of one slot, which have one barrier.
        isa::debug::hold(data, "part of a slot of ring", Tag::NAME, self.at.taken(), "loaded");
        PartSlot { data, full, part: PhantomData }
    }

    /// Waits until every slot has been released for the last time.
    ///
    /// (PTX `mbarrier.try_wait.parity`, `STAGES` times; CUTLASS `producer_tail`.) See the example
    /// of [`PartProducer`].
    #[device]
    pub fn tail(self) {
        self.at.tail();
    }
}

/// The result of [`PartProducer::try_acquire`].
///
/// (CUTLASS `ProducerToken`.)
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{prelude::*, ring::*}};
/// # names! { Main = "main loop" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Panel = Tile<bf16, 128, 64>;
///
/// fn fill(empty: &mut PartProducer<4, (Panel, Panel), Panel, Main>, from: &TensorMap<Panel>) {
///     let peek = empty.try_acquire();
///     let _may_wait = !peek.ready();
///     peek.acquire().load(from.tile(0, 0, Peers::ALONE));
/// }
/// ```
#[must_use = "a peek is finished with `acquire`"]
pub struct PartPeek<'p, const STAGES: usize, St, T, Tag> {
    ready: bool,
    producer: &'p mut PartProducer<STAGES, St, T, Tag>,
}

impl<const STAGES: usize, St: Stage, T: TileShape, Tag: Name> PartPeek<'_, STAGES, St, T, Tag> {
    /// Returns whether the test found the slot empty.
    ///
    /// (CUTLASS `ProducerToken`'s `BarrierStatus`.) See the example of [`PartPeek`].
    pub fn ready(&self) -> bool {
        self.ready
    }
    /// Acquires this thread's part of the tested slot.
    ///
    /// Waits until the slot is empty, unless the test found it empty. (PTX: as
    /// [`PartProducer::acquire`], or nothing after a successful test; CUTLASS
    /// `producer_acquire(state, token)`.) See the example of [`PartPeek`].
    #[device]
    pub fn acquire(self) -> PartSlot<T, Tag> {
        self.producer.slot(self.ready)
    }
}

/// One tile's part of an acquired slot.
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{prelude::*, ring::*}};
/// # names! { Main = "main loop" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Panel = Tile<bf16, 128, 64>; type Alone = Cluster<1, 1>;
///
/// fn fill(part: PartSlot<Panel, Main>, from: &TensorMap<Panel>) {
///     part.load(from.tile(128, 0, Peers::ALONE));
/// }
/// ```
#[must_use = "a part that is never loaded stops the ring: call `load`"]
pub struct PartSlot<T, Tag> {
    data: u32,
    full: u32,
    part: PhantomData<(T, Tag, *const ())>,
}

impl<T: TileShape, Tag: Name> PartSlot<T, Tag> {
    /// Arms the slot with the tile's bytes and issues the tile's load.
    ///
    /// Signals the full barrier: one arrival by this thread, and the tile's bytes when they land.
    /// (PTX `mbarrier.arrive.expect_tx`, `cp.async.bulk.tensor.2d`; CUTLASS
    /// `producer_expect_transaction`, `copy`, `producer_commit`.) See the example of [`PartSlot`].
    #[device]
    pub fn load<P: Sharing>(self, load: Load<'_, T, P>) {
        isa::debug::let_go(self.data);
        // SAFETY: the part is acquired. The phase can't complete before this thread's arrival, so
        // the other parts' bytes may land before or after it.
        unsafe {
            isa::mbarrier::arrive_expect_tx(self.full, T::BYTES as u32);
            load.issue(self.data, self.full);
        }
    }
}
