//! Who empties a ring's slots, and how.

use super::sealed::Sealed;
use crate::cta::Role;
use core::marker::PhantomData;

/// Who empties a slot, which fixes the arrivals that its empty barrier expects from one CTA.
///
/// Waits for nothing. Signals nothing. PTX: the count of `mbarrier.init`. CUTLASS:
/// `params.num_consumers`, and the constructor's count of multicast sharers.
///
/// ```
/// use pipeline::{prelude::*, ring::{MmaInTurn, Readers, ReadsInTurn}};
/// roles! { Math = 2 x 232 registers }
/// assert_eq!((Mma::<Math>::ARRIVALS, MmaInTurn::<Math>::ARRIVALS), (2, 1));
/// assert_eq!((Reads::<Math>::ARRIVALS, ReadsInTurn::<Math>::ARRIVALS), (8, 4));
/// assert_eq!((Mma::<Math>::GROUPS, MmaInTurn::<Math>::GROUPS), (2, 1));
/// assert_eq!((Mma::<Math>::share(1), MmaInTurn::<Math>::share(1)), (1, 0));
/// ```
pub trait Readers: Sealed + 'static {
    /// The role that reads.
    type Role: Role;
    /// Warp groups that share one slot: each reads 64 rows of it.
    const GROUPS: usize;
    /// Arrivals per slot from one CTA.
    const ARRIVALS: usize;
    /// Do peers that share an operand load into the slot (multicast)?
    const MULTICAST: bool;
    /// Are the reads made through the async proxy?
    const ASYNC: bool;
    /// Which of the groups that share a slot `group` of the role is.
    ///
    /// Waits for nothing, signals nothing; PTX and CUTLASS: none. See the example of [`Readers`].
    #[inline(always)]
    fn share(group: u32) -> u32 {
        if Self::GROUPS == 1 { 0 } else { group }
    }
}

/// Every warp group of role `R` reads every slot with wgmma, and arrives once.
///
/// Waits for a full slot. Signals one arrival for each warp group on the empty barrier, here and at
/// sharing peers. PTX: `mbarrier.arrive`, `mbarrier.arrive.shared::cluster`. CUTLASS: the consumers
/// of `PipelineTmaAsync`.
///
/// ```
/// # use {half::bf16, pipeline::prelude::*}; names! { Main = "main" } type Alone = Cluster<1, 1>;
/// # roles! { Load = 1 x 40 registers, Math = 1 x 232 registers } type Panel = Tile<bf16, 64, 64>;
/// const BYTES: u32 = SmemPlan::<(Ring<4, (Panel, Panel), Tma, Mma<Math>, Main, Cluster<2, 1>>,)>::BYTES;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Mma<R>(PhantomData<R>);
impl<R> Sealed for Mma<R> {}
impl<R: Role> Readers for Mma<R> {
    type Role = R;
    const GROUPS: usize = R::GROUPS;
    const ARRIVALS: usize = R::GROUPS;
    const MULTICAST: bool = true;
    const ASYNC: bool = true;
}

/// Every warp group of role `R` reads every slot with ordinary loads; each of its warps arrives
/// once.
///
/// Waits for a full slot. Signals one arrival for each warp on the empty barrier. PTX:
/// `mbarrier.arrive`. CUTLASS: the consumers of `PipelineAsync`.
///
/// ```
/// # use {half::bf16, pipeline::prelude::*}; names! { Main = "main" } type Alone = Cluster<1, 1>;
/// # roles! { Load = 1 x 40 registers, Math = 1 x 232 registers } type Panel = Tile<bf16, 64, 64>;
/// const BYTES: u32 = SmemPlan::<(Ring<4, (Panel,), Tma, Reads<Math>, Main, Alone>,)>::BYTES;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Reads<R>(PhantomData<R>);
impl<R> Sealed for Reads<R> {}
impl<R: Role> Readers for Reads<R> {
    type Role = R;
    const GROUPS: usize = R::GROUPS;
    const ARRIVALS: usize = 4 * R::GROUPS;
    const MULTICAST: bool = false;
    const ASYNC: bool = false;
}

/// The warp groups of role `R` take turns: each slot is read, with wgmma, by one of them, which
/// arrives once. The others skip it ([`Consumer::skip`](super::Consumer::skip)).
///
/// Waits for a full slot. Signals one arrival on the empty barrier, here and at sharing peers. PTX:
/// `mbarrier.arrive`, `mbarrier.arrive.shared::cluster`. CUTLASS: the consumers of the ping-pong
/// kernel's `PipelineTmaAsync`.
///
/// ```
/// # use {half::bf16, pipeline::{prelude::*, ring::MmaInTurn}}; names! { Main = "main" } type Alone = Cluster<1, 1>;
/// # roles! { Load = 1 x 40 registers, Math = 1 x 232 registers } type Panel = Tile<bf16, 64, 64>;
/// const BYTES: u32 = SmemPlan::<(Ring<4, (Panel, Panel), Tma, MmaInTurn<Math>, Main, Alone>,)>::BYTES;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MmaInTurn<R>(PhantomData<R>);
impl<R> Sealed for MmaInTurn<R> {}
impl<R: Role> Readers for MmaInTurn<R> {
    type Role = R;
    const GROUPS: usize = 1;
    const ARRIVALS: usize = 1;
    const MULTICAST: bool = true;
    const ASYNC: bool = true;
}

/// The warp groups of role `R` take turns: each slot is read, with ordinary loads, by one of them,
/// whose warps each arrive once. The others skip it ([`Consumer::skip`](super::Consumer::skip)).
///
/// Waits for a full slot. Signals one arrival for each warp of a group on the empty barrier. PTX:
/// `mbarrier.arrive`. CUTLASS: the consumers of the ping-pong kernel's epilogue loads.
///
/// ```
/// # use {half::bf16, pipeline::{prelude::*, ring::ReadsInTurn}}; names! { Main = "main" } type Alone = Cluster<1, 1>;
/// # roles! { Load = 1 x 40 registers, Math = 2 x 232 registers } type Panel = Tile<bf16, 64, 64>;
/// const BYTES: u32 = SmemPlan::<(Ring<4, (Panel,), Tma, ReadsInTurn<Math>, Main, Alone>,)>::BYTES;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ReadsInTurn<R>(PhantomData<R>);
impl<R> Sealed for ReadsInTurn<R> {}
impl<R: Role> Readers for ReadsInTurn<R> {
    type Role = R;
    const GROUPS: usize = 1;
    const ARRIVALS: usize = 4;
    const MULTICAST: bool = false;
    const ASYNC: bool = false;
}

/// Readers that share the slots out among themselves: [`MmaInTurn`] and [`ReadsInTurn`].
///
/// Waits for nothing, signals nothing; PTX and CUTLASS: none.
///
/// ```
/// # use pipeline::{prelude::*, ring::*, ring::Stage};
/// fn every_other<S: Stage, R: TakeTurns, Tag: Name>(mut full: Consumer<4, S, R, Tag, Cluster<1, 1>>) {
///     let _slot = full.wait();
///     full.skip(1);
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't skip slots: each of its warp groups reads every slot",
    label = "the slot's empty barrier expects an arrival of every warp group",
    note = "wait for the slot and release it, or let the warp groups take turns: `MmaInTurn<Role>` in place of `Mma<Role>`, `ReadsInTurn<Role>` in place of `Reads<Role>`"
)]
pub trait TakeTurns: Readers {}
impl<R: Role> TakeTurns for MmaInTurn<R> {}
impl<R: Role> TakeTurns for ReadsInTurn<R> {}

/// Readers that read with ordinary loads, which have returned when the next instruction runs:
/// [`Reads`] and [`ReadsInTurn`].
///
/// Waits for nothing, signals nothing; PTX and CUTLASS: none.
///
/// ```
/// # use pipeline::{prelude::*, ring::*, ring::Stage};
/// fn give_back<S: Stage, R: OrdinaryReads, Tag: Name>(slot: FullSlot<S, R, Tag, Cluster<1, 1>>) {
///     slot.release();
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't release a slot that wgmma may be reading",
    label = "the slot is released by the batch that reads it",
    note = "give the slot to a batch, which gives it back when it has retired: `sum.next(slot).release()`, and `let (sum, last) = sum.finish(); last.release()` for the last one"
)]
pub trait OrdinaryReads: Readers {}
impl<R: Role> OrdinaryReads for Reads<R> {}
impl<R: Role> OrdinaryReads for ReadsInTurn<R> {}

/// Readers of slots that `cp.async` fills, through the generic proxy: [`Reads`].
///
/// Waits for nothing, signals nothing; PTX and CUTLASS: none.
///
/// ```
/// use pipeline::{prelude::*, ring::CpAsyncReaders};
/// roles! { Math = 1 x 232 registers }
/// fn arrivals<R: CpAsyncReaders>() -> usize { R::ARRIVALS }
/// assert_eq!(arrivals::<Reads<Math>>(), 4);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't read what `cp.async` writes: wgmma reads through the async proxy, `cp.async` writes through the generic one",
    label = "a proxy fence would have to come after the copies' completion, which is told to the barrier by the hardware",
    note = "let TMA fill the ring, `Tma`, or ordinary stores, `Writes<Role>`, whose `commit` fences; or read it with ordinary loads, `Reads<Role>`"
)]
pub trait CpAsyncReaders: Readers {}
impl<R: Role> CpAsyncReaders for Reads<R> {}

/// Readers whose slots are read by wgmma: [`Mma`] and [`MmaInTurn`].
///
/// Waits for nothing, signals nothing; PTX and CUTLASS: none.
///
/// ```
/// # use pipeline::{prelude::*, ring::*, ring::Stage};
/// fn wait<S: Stage, R: MmaReaders, Tag: Name>(full: &mut Consumer<4, S, R, Tag, Cluster<1, 1>>) {
///     let _slot = full.wait();
/// }
/// ```
pub trait MmaReaders: Readers {}
impl<R: Role> MmaReaders for Mma<R> {}
impl<R: Role> MmaReaders for MmaInTurn<R> {}
