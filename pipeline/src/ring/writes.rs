//! The producer of a ring that a role fills with ordinary stores (CUTLASS `PipelineAsync`).
//!
//! Invariant: each warp arrives once per slot, after its stores. If the readers use wgmma, a proxy
//! fence comes between the stores and the arrival.

use super::{Name, ProducerEnd, ProducerPosition, Readers, Writes};
use crate::cta::ClusterShape;
use crate::cta::{Role, Warpgroup};
use crate::mma::{COLUMNS, Fragments, GROUP_ROWS, store_fragment, within};
use crate::ring::{Stage, TileAt};
use crate::tile::TileShape;
use core::marker::PhantomData;
use isa::device;

impl<const STAGES: usize, St: Stage, Ro: Role, Rd: Readers, Tag: Name, Cl: ClusterShape>
    ProducerEnd<STAGES, St, Writes<Ro>, Rd, Tag, Cl>
{
    /// Binds the end to a warp group of the writing role.
    ///
    /// See the example of [`Writer`].
    #[isa::forceinline]
    pub fn by(self, group: &Warpgroup<Ro, Cl>) -> Writer<'_, STAGES, St, Ro, Rd, Tag, Cl> {
        Writer { at: ProducerPosition::start(self.base), group, ring: PhantomData }
    }
}

/// The producer of a ring filled by ordinary stores: its position in the ring, and the verbs
/// `acquire`, `try_acquire` and `tail`.
///
/// Waits for empty slots and signals full ones. (PTX `mbarrier.try_wait.parity`, `mbarrier.arrive`;
/// CUTLASS: the producer's side of `PipelineAsync` and its `PipelineState`.)
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{prelude::*, ring::*}};
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
    at: ProducerPosition<STAGES, St>,
    group: &'g Warpgroup<Ro, Cl>,
    ring: PhantomData<(Rd, Tag)>,
}

impl<'g, const STAGES: usize, St: Stage, Ro: Role, Rd: Readers, Tag: Name, Cl: ClusterShape>
    Writer<'g, STAGES, St, Ro, Rd, Tag, Cl>
{
    /// Acquires the next slot and advances.
    ///
    /// Waits until every reader has released the slot. (PTX `mbarrier.try_wait.parity` on the empty
    /// barrier, in a loop; CUTLASS `producer_acquire`.) See the example of [`Writer`].
    #[device]
    pub fn acquire(&mut self) -> WriteSlot<'g, St, Ro, Rd, Tag, Cl> {
        self.slot(false)
    }

    /// Tests whether the next slot is empty.
    ///
    /// The result is the same for all threads of a warp (a vote combines what they saw), so they
    /// can branch on it together. It belongs to that slot, and the writer can't be used while it
    /// exists.
    ///
    /// The test may suspend the thread for a time limit that the hardware sets. (PTX
    /// `mbarrier.try_wait.parity`, once, and `vote.sync.all`; CUTLASS `producer_try_acquire`.) See
    /// the example of [`WritePeek`].
    #[device]
    pub fn try_acquire(&mut self) -> WritePeek<'_, 'g, STAGES, St, Ro, Rd, Tag, Cl> {
        // SAFETY: the group is converged, and so is the warp.
        let ready = unsafe { isa::warp::vote_all(self.at.peek()) };
        WritePeek { ready, writer: self }
    }

    #[device]
    fn slot(&mut self, ready: bool) -> WriteSlot<'g, St, Ro, Rd, Tag, Cl> {
        let (data, full) = self.at.take(ready);
        isa::debug::hold(full, "slot of ring", Tag::NAME, self.at.taken(), "committed");
        WriteSlot { data, full, group: self.group, ring: PhantomData }
    }

    /// Waits until every slot has been released for the last time.
    ///
    /// (PTX `mbarrier.try_wait.parity`, `STAGES` times; CUTLASS `producer_tail`.) See the example
    /// of [`Writer`].
    #[device]
    pub fn tail(self) {
        self.at.tail();
    }
}

/// The result of [`Writer::try_acquire`].
///
/// (CUTLASS `ProducerToken`.)
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{prelude::*, ring::*}};
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
    ready: bool,
    writer: &'p mut Writer<'g, STAGES, St, Ro, Rd, Tag, Cl>,
}

impl<'g, const STAGES: usize, St: Stage, Ro: Role, Rd: Readers, Tag: Name, Cl: ClusterShape>
    WritePeek<'_, 'g, STAGES, St, Ro, Rd, Tag, Cl>
{
    /// Returns whether the test found the slot empty.
    ///
    /// (CUTLASS `ProducerToken`'s `BarrierStatus`.) See the example of [`WritePeek`].
    pub fn ready(&self) -> bool {
        self.ready
    }
    /// Acquires the tested slot.
    ///
    /// Waits until the slot is empty, unless the test found it empty. (PTX: as [`Writer::acquire`],
    /// or nothing after a successful test; CUTLASS `producer_acquire(state, token)`.) See the
    /// example of [`WritePeek`].
    #[device]
    pub fn acquire(self) -> WriteSlot<'g, St, Ro, Rd, Tag, Cl> {
        self.writer.slot(self.ready)
    }
}

/// An acquired slot, to be filled with ordinary stores.
///
/// (CUTLASS: the stage's part of `SharedStorage`, after `producer_acquire`.)
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{prelude::*, ring::*}};
/// # names! { Main = "main loop" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Panel = Tile<bf16, 128, 64>; type Alone = Cluster<1, 1>;
///
/// fn fill(mut slot: WriteSlot<'_, (Panel,), Math, Reads<Load>, Main, Alone>, sums: [[f32; 8]; 4]) {
///     for fragment in 0..4 {
///         slot.put(fragment, sums[fragment]);
///     }
///     slot.commit();
/// }
/// ```
#[must_use = "an acquired slot that is never committed stops the ring: call `put`, then `commit`"]
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
    /// Writes a fragment of the slot's tile: this thread's 8 values of the 64x16 fragment number
    /// `fragment`, counted along the columns.
    ///
    /// Warp group i writes the tile's rows 64i to 64i + 63.
    ///
    /// (PTX `stmatrix.sync.aligned.m8n8.x4`, or `st.shared.v2` for f32; CUTLASS `copy` with
    /// `SM90_U32x4_STSM_N`.) See the example of [`WriteSlot`].
    #[device]
    pub fn put(&mut self, fragment: usize, values: [f32; 8]) {
        const {
            assert!(T::ROWS == GROUP_ROWS * Ro::GROUPS, "the tile has 64 rows for each warp group");
        }
        let warp_row = self.group.index() * GROUP_ROWS as u32 + self.group.thread() / 32 * 16;
        let fragment = within(fragment, T::COLS / COLUMNS);
        // SAFETY: the slot is acquired, the fragment lies in it, and the group is converged.
        unsafe { store_fragment::<T>(self.data, warp_row, fragment, values) }
    }
}

impl<T: TileShape, const COUNT: usize, Ro: Role, Rd: Readers, Tag: Name, Cl: ClusterShape>
    WriteSlot<'_, [T; COUNT], Ro, Rd, Tag, Cl>
where
    T::Element: Fragments,
{
    /// Writes a fragment of this warp group's own tile: this thread's 8 values of the 64x16
    /// fragment number `fragment`, counted along the columns.
    ///
    /// Warp group i fills tile i of the slot.
    ///
    /// (PTX `stmatrix.sync.aligned.m8n8.x4`, or `st.shared.v2` for f32; CUTLASS `copy` with
    /// `SM90_U32x4_STSM_N`.) See the example of [`WriteSlot`].
    #[device]
    pub fn put(&mut self, fragment: usize, values: [f32; 8]) {
        const {
            assert!(
                COUNT == Ro::GROUPS && T::ROWS == GROUP_ROWS,
                "the slot has one tile of 64 rows for each warp group that writes"
            );
        }
        let tile = self.data + self.group.index() * T::BYTES as u32;
        let warp_row = self.group.thread() / 32 * 16;
        let fragment = within(fragment, T::COLS / COLUMNS);
        // SAFETY: the slot is acquired, the tile is the group's own, and the group is converged.
        unsafe { store_fragment::<T>(tile, warp_row, fragment, values) }
    }
}

impl<St: Stage, Ro: Role, Rd: Readers, Tag: Name, Cl: ClusterShape>
    WriteSlot<'_, St, Ro, Rd, Tag, Cl>
{
    /// Writes a fragment of tile number `I` of the slot: this thread's 8 values of a fragment of 64
    /// rows and 16 columns.
    ///
    /// The tile's blocks of 64 rows go to the warp groups of the role in rotation: block b is
    /// written by group b mod `Ro::GROUPS`. `fragment` counts the fragments of this group's first
    /// block along the columns, then those of its next block. Rows that the tile does not have are
    /// not written.
    ///
    /// The tile lies in the slot as TMA would write it, so wgmma can read it as an operand.
    ///
    /// (PTX `stmatrix.sync.aligned.m8n8.x4`, or `st.shared.v2` for f32; CUTLASS `copy` with
    /// `SM90_U32x4_STSM_N`.)
    ///
    /// ```
    /// # use {half::bf16, warpipe_pipeline::{prelude::*, ring::*}};
    /// # names! { Main = "main loop" }
    /// # roles! { Scale = 1 x 168 registers, Math = 1 x 168 registers }
    /// # type Alone = Cluster<1, 1>;
    /// type Operands = (Tile<bf16, 64, 64>, Tile<bf16, 128, 64>);
    /// type Slot<'g> = WriteSlot<'g, Operands, Scale, Mma<Math>, Main, Alone>;
    ///
    /// /// Both operands of wgmma, from registers.
    /// fn fill(mut slot: Slot<'_>, a: [[f32; 8]; 4], b: [[f32; 8]; 8]) {
    ///     for fragment in 0..4 {
    ///         slot.put_to::<0>(fragment, a[fragment]);
    ///     }
    ///     for fragment in 0..8 {
    ///         slot.put_to::<1>(fragment, b[fragment]); // rows 0 to 63, then 64 to 127
    ///     }
    ///     slot.commit();
    /// }
    /// ```
    #[device]
    pub fn put_to<const I: usize>(&mut self, fragment: usize, values: [f32; 8])
    where
        St: TileAt<I>,
        <St::Tile as TileShape>::Element: Fragments,
    {
        let (rows, columns) =
            const { (<St::Tile as TileShape>::ROWS, <St::Tile as TileShape>::COLS / COLUMNS) };
        let together = const { GROUP_ROWS * Ro::GROUPS };
        const {
            assert!(
                <St::Tile as TileShape>::ROWS.is_multiple_of(16),
                "a warp writes 16 rows at a time"
            );
        };
        let fragment = within(fragment, columns * rows.div_ceil(together)) as usize;
        let (block, fragment) = (fragment / columns, (fragment % columns) as u32);
        let group_row = block * together + self.group.index() as usize * GROUP_ROWS;
        let warp_row = group_row as u32 + self.group.thread() / 32 * 16;
        let tile = self.data + St::OFFSET as u32;
        if rows.is_multiple_of(together) || warp_row < rows as u32 {
            // SAFETY: the slot is acquired, the warp's rows lie in the tile and are its own, and the
            // group is converged, so that a whole warp is here or none of it.
            unsafe {
                store_fragment::<St::Tile>(tile, warp_row, fragment, values);
            }
        }
    }
}

impl<St: Stage, Ro: Role, Rd: Readers, Tag: Name, Cl: ClusterShape>
    WriteSlot<'_, St, Ro, Rd, Tag, Cl>
{
    /// Commits the slot: signals its readers that this warp's stores are done.
    ///
    /// If the readers use wgmma, every thread first fences its stores. Then the warp synchronises
    /// and one lane arrives.
    ///
    /// Waits for the other lanes of the warp. Signals one arrival per warp on the full barrier.
    /// (PTX `fence.proxy.async.shared::cta` if the readers use wgmma, `bar.warp.sync`,
    /// `mbarrier.arrive`; CUTLASS `fence_view_async_shared`, then `producer_commit`.) See the
    /// example of [`WriteSlot`].
    #[device]
    pub fn commit(self) {
        isa::debug::let_go(self.full);
        if Rd::ASYNC {
            isa::fence::proxy_async_shared_cta();
        }
        // SAFETY: the group is converged, and in every lane the warp's stores come before this
        // point.
        unsafe {
            isa::warp::sync_warp(u32::MAX);
            if isa::warp::lane_id() == 0 {
                isa::mbarrier::arrive(self.full);
            }
        }
    }
}
