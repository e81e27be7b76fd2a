//! The kinds of readers of a ring: who reads a slot, how, and how many arrivals release it.
//!
//! Invariant: `ARRIVALS` is the number of arrivals that the consumers of one CTA make for each
//! slot.

use super::sealed::Sealed;
use crate::cta::Role;
use core::marker::PhantomData;

/// The readers of a ring's slots: they fix the arrivals that an empty barrier expects from one CTA.
///
/// (PTX: the count operand of `mbarrier.init`; CUTLASS: `params.num_consumers`, which the
/// constructor of `PipelineTmaAsync` multiplies by the number of CTAs that share an operand.)
///
/// ```
/// use warpipe_pipeline::{prelude::*, ring::{MmaInTurn, MmaReads, Readers, ReadsInTurn}};
/// roles! { Math = 2 x 232 registers }
/// assert_eq!((Mma::<Math>::ARRIVALS, MmaInTurn::<Math>::ARRIVALS), (2, 1));
/// assert_eq!(MmaReads::<Math>::ARRIVALS, 8);
/// assert_eq!((Reads::<Math>::ARRIVALS, ReadsInTurn::<Math>::ARRIVALS), (8, 4));
/// assert_eq!((Mma::<Math>::GROUPS, MmaInTurn::<Math>::GROUPS), (2, 1));
/// assert_eq!((Mma::<Math>::share(1), MmaInTurn::<Math>::share(1)), (1, 0));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be the readers of a ring",
    label = "a role alone does not say how it reads",
    note = "readers are `Mma<Role>`, `MmaReads<Role>` or `MmaInTurn<Role>`, which use wgmma, and `Reads<Role>` or `ReadsInTurn<Role>`, which use ordinary loads",
    note = "on Blackwell also `Umma<Role>`, whose one thread multiplies into tensor memory"
)]
pub trait Readers: Sealed + 'static {
    /// The role that reads.
    type Role: Role;
    /// Warp groups that share one slot. Each reads an equal part of its rows.
    const GROUPS: usize;
    /// Arrivals per slot from one CTA.
    const ARRIVALS: usize;
    /// Whether peer CTAs that share an operand also write this CTA's slots (multicast).
    const MULTICAST: bool;
    /// Whether the reads go through the async proxy.
    const ASYNC: bool;
    /// Whether the warp groups take turns, so that each of them skips slots ([`TakeTurns`]).
    const IN_TURN: bool = false;
    /// Whether each warp arrives. Ordinary loads need this, because one thread's arrival orders only the wgmma reads of
    /// the other threads. Otherwise one thread arrives for its whole warp group.
    const WARPS_ARRIVE: bool = false;
    /// Whether a pair of CTAs reads the slots of both together ([`TwoSm`](crate::cta::TwoSm)).
    const PAIR: bool = false;
    /// Who arrives, as `warpipe inspect` prints it.
    const BY: &'static str = "";
    /// Returns which part of a slot warp group number `group` of the role reads.
    ///
    /// See the example of [`Readers`].
    #[isa::forceinline]
    fn share(group: u32) -> u32 {
        if Self::GROUPS == 1 { 0 } else { group }
    }
}

/// Every warp group of role `Ro` reads every slot with wgmma.
///
/// Waits for a full slot. Signals one arrival per warp group on the empty barrier, in this CTA and
/// in the peers that share the slot. (PTX `mbarrier.arrive`, `mbarrier.arrive.shared::cluster`;
/// CUTLASS: the consumers of `PipelineTmaAsync`.)
///
/// ```
/// # use {half::bf16, warpipe_pipeline::prelude::*}; names! { Main = "main" } type Alone = Cluster<1, 1>;
/// # roles! { Load = 1 x 40 registers, Math = 1 x 232 registers } type Panel = Tile<bf16, 64, 64>;
/// const BYTES: u32 = SmemPlan::<(Ring<4, (Panel, Panel), Tma, Mma<Math>, Main, Cluster<2, 1>>,)>::BYTES;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Mma<Ro>(PhantomData<Ro>);
impl<Ro> Sealed for Mma<Ro> {}
impl<Ro: Role> Readers for Mma<Ro> {
    type Role = Ro;
    const GROUPS: usize = Ro::GROUPS;
    const ARRIVALS: usize = Ro::GROUPS;
    const MULTICAST: bool = true;
    const ASYNC: bool = true;
    const BY: &'static str = "each warp group that reads, in each CTA that gets the slot's data";
}

/// Every warp group of role `Ro` reads the tiles of every slot with wgmma, and the scale factors beside the tiles
/// with ordinary loads.
///
/// Waits for a full slot. Signals one arrival per warp on the empty barrier, in this CTA and in the peers that share the
/// slot. (PTX `mbarrier.arrive`, `mbarrier.arrive.shared::cluster`; CUTLASS: the consumers of `PipelineTmaAsync`, each
/// warp of which arrives.)
///
/// ```
/// # use {float8::F8E4M3, warpipe_pipeline::{prelude::*, ring::*, tile::Vector}}; names! { Main = "main" }
/// # roles! { Load = 1 x 40 registers, Math = 1 x 232 registers } type Panel = Tile<F8E4M3, 64, 128>;
/// type Scaled = BlockScaled<Panel, Panel, Vector<f32, 64>, 1, 64>;
/// const BYTES: u32 = SmemPlan::<(Ring<4, Scaled, Tma, MmaReads<Math>, Main, Cluster<2, 1>>,)>::BYTES;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MmaReads<Ro>(PhantomData<Ro>);
impl<Ro> Sealed for MmaReads<Ro> {}
impl<Ro: Role> Readers for MmaReads<Ro> {
    type Role = Ro;
    const GROUPS: usize = Ro::GROUPS;
    const ARRIVALS: usize = 4 * Ro::GROUPS;
    const MULTICAST: bool = true;
    const ASYNC: bool = true;
    const WARPS_ARRIVE: bool = true;
    const BY: &'static str = "each warp that reads, in each CTA that gets the slot's data";
}

/// Every warp group of role `Ro` reads every slot with ordinary loads.
///
/// Waits for a full slot. Signals one arrival per warp on the empty barrier. (PTX
/// `mbarrier.arrive`; CUTLASS: the consumers of `PipelineAsync`.)
///
/// ```
/// # use {half::bf16, warpipe_pipeline::prelude::*}; names! { Main = "main" } type Alone = Cluster<1, 1>;
/// # roles! { Load = 1 x 40 registers, Math = 1 x 232 registers } type Panel = Tile<bf16, 64, 64>;
/// const BYTES: u32 = SmemPlan::<(Ring<4, (Panel,), Tma, Reads<Math>, Main, Alone>,)>::BYTES;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Reads<Ro>(PhantomData<Ro>);
impl<Ro> Sealed for Reads<Ro> {}
impl<Ro: Role> Readers for Reads<Ro> {
    type Role = Ro;
    const GROUPS: usize = Ro::GROUPS;
    const ARRIVALS: usize = 4 * Ro::GROUPS;
    const MULTICAST: bool = false;
    const ASYNC: bool = false;
    const BY: &'static str = "each warp that reads";
}

/// The warp groups of role `Ro` take turns: one of them reads each slot with wgmma.
///
/// The others skip the slot ([`Consumer::skip`](super::Consumer::skip)).
///
/// Waits for a full slot. Signals one arrival on the empty barrier, in this CTA and in the peers
/// that share the slot. (PTX `mbarrier.arrive`, `mbarrier.arrive.shared::cluster`; CUTLASS: the
/// consumers of `PipelineTmaAsync` in the ping-pong kernel.)
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{prelude::*, ring::MmaInTurn}}; names! { Main = "main" } type Alone = Cluster<1, 1>;
/// # roles! { Load = 1 x 40 registers, Math = 1 x 232 registers } type Panel = Tile<bf16, 64, 64>;
/// const BYTES: u32 = SmemPlan::<(Ring<4, (Panel, Panel), Tma, MmaInTurn<Math>, Main, Alone>,)>::BYTES;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MmaInTurn<Ro>(PhantomData<Ro>);
impl<Ro> Sealed for MmaInTurn<Ro> {}
impl<Ro: Role> Readers for MmaInTurn<Ro> {
    type Role = Ro;
    const GROUPS: usize = 1;
    const ARRIVALS: usize = 1;
    const MULTICAST: bool = true;
    const ASYNC: bool = true;
    const IN_TURN: bool = true;
    const BY: &'static str =
        "the warp group whose turn it is, in each CTA that gets the slot's data";
}

/// The warp groups of role `Ro` take turns: one of them reads each slot with ordinary loads.
///
/// The others skip the slot ([`Consumer::skip`](super::Consumer::skip)).
///
/// Waits for a full slot. Signals one arrival per warp of the reading group on the empty barrier.
/// (PTX `mbarrier.arrive`; CUTLASS: the consumers of the epilogue loads in the ping-pong kernel.)
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{prelude::*, ring::ReadsInTurn}}; names! { Main = "main" } type Alone = Cluster<1, 1>;
/// # roles! { Load = 1 x 40 registers, Math = 2 x 232 registers } type Panel = Tile<bf16, 64, 64>;
/// const BYTES: u32 = SmemPlan::<(Ring<4, (Panel,), Tma, ReadsInTurn<Math>, Main, Alone>,)>::BYTES;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ReadsInTurn<Ro>(PhantomData<Ro>);
impl<Ro> Sealed for ReadsInTurn<Ro> {}
impl<Ro: Role> Readers for ReadsInTurn<Ro> {
    type Role = Ro;
    const GROUPS: usize = 1;
    const ARRIVALS: usize = 4;
    const MULTICAST: bool = false;
    const ASYNC: bool = false;
    const IN_TURN: bool = true;
    const BY: &'static str = "each warp of the warp group whose turn it is";
}

/// Readers whose warp groups take turns: [`MmaInTurn`] and [`ReadsInTurn`].
///
/// A warp group may wait for a slot only after each slot that it skipped has been waited for by its
/// own reader ([`Consumer::skip`](super::Consumer::skip)).
///
/// ```
/// # use warpipe_pipeline::{prelude::*, ring::*, ring::Stage};
/// fn every_other<St: Stage, Rd: TakeTurns, Tag: Name>(mut full: Consumer<4, St, Rd, Tag, Cluster<1, 1>>) {
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
impl<Ro: Role> TakeTurns for MmaInTurn<Ro> {}
impl<Ro: Role> TakeTurns for ReadsInTurn<Ro> {}

/// Readers that use ordinary loads: [`Reads`] and [`ReadsInTurn`].
///
/// The arrival that releases a slot orders ordinary loads before it (wgmma's reads need a wait
/// first).
///
/// ```
/// # use warpipe_pipeline::{prelude::*, ring::*, ring::Stage};
/// fn give_back<St: Stage, Rd: OrdinaryReads, Tag: Name>(slot: FullSlot<St, Rd, Tag, Cluster<1, 1>>) {
///     slot.release();
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't release a slot that wgmma may be reading",
    label = "the slot is released by the batch that reads it",
    note = "give the slot to a batch, which gives it back when it has retired: `sum.next(slot).release()`, and `let (sum, slot) = sum.finish(); slot.release()` for the last one, or `let (sum, (a, b)) = …` for a pair of slots"
)]
pub trait OrdinaryReads: Readers {}
impl<Ro: Role> OrdinaryReads for Reads<Ro> {}
impl<Ro: Role> OrdinaryReads for ReadsInTurn<Ro> {}

/// Readers of slots that `cp.async` fills: [`Reads`].
///
/// `cp.async` writes through the generic proxy, so the readers must read through it too.
///
/// ```
/// use warpipe_pipeline::{prelude::*, ring::CpAsyncReaders};
/// roles! { Math = 1 x 232 registers }
/// fn arrivals<Rd: CpAsyncReaders>() -> usize { Rd::ARRIVALS }
/// assert_eq!(arrivals::<Reads<Math>>(), 4);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't read what `cp.async` writes: wgmma reads through the async proxy, `cp.async` writes through the generic one",
    label = "a proxy fence would have to follow the copies' completion, which the hardware signals to the barrier",
    note = "let TMA fill the ring, `Tma`, or ordinary stores, `Writes<Role>`, whose `commit` fences; or read it with ordinary loads, `Reads<Role>`"
)]
pub trait CpAsyncReaders: Readers {}
impl<Ro: Role> CpAsyncReaders for Reads<Ro> {}

/// Readers that use wgmma: [`Mma`], [`MmaReads`] and [`MmaInTurn`].
///
/// ```
/// # use warpipe_pipeline::{prelude::*, ring::*, ring::Stage};
/// fn wait<St: Stage, Rd: MmaReaders, Tag: Name>(full: &mut Consumer<4, St, Rd, Tag, Cluster<1, 1>>) {
///     let _slot = full.wait();
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not read with wgmma",
    label = "this ring is read with ordinary loads",
    note = "a batch of wgmmas takes the slots of a ring whose readers are `Mma<Role>`, `MmaReads<Role>` or `MmaInTurn<Role>`; slots of `Reads<Role>` are read with `fragment`"
)]
pub trait MmaReaders: Readers {}
impl<Ro: Role> MmaReaders for Mma<Ro> {}
impl<Ro: Role> MmaReaders for MmaReads<Ro> {}
impl<Ro: Role> MmaReaders for MmaInTurn<Ro> {}
