//! The ring: `STAGES` slots of tiles between those who fill and those who empty them, each slot
//! guarded by a full and an empty mbarrier.
//!
//! ```text
//!            acquire: wait empty        wait: wait full
//!   producer ───────────────► slot i ───────────────► consumer
//!            load / commit: full        release: arrive on empty, here and at sharing peers
//! ```
//!
//! One ring type covers CUTLASS's pipelines; who fills and who empties are type parameters:
//!
//! | CUTLASS | writers | readers |
//! |---|---|---|
//! | `PipelineTmaAsync` | [`Tma`] | [`Mma`] or [`Reads`] |
//! | `PipelineTransactionAsync` | [`TmaParts`] | [`Mma`] or [`Reads`] |
//! | `PipelineAsync` | [`Writes`] | [`Mma`] or [`Reads`] |
//! | `PipelineAsync`, `cpasync_barrier_arrive_noinc` | [`CpAsync`] | [`Reads`] |
//!
//! What CUTLASS asks its user to remember is in types here. Arrival counts follow from the roles and
//! the cluster; transaction bytes from the tiles; starting phases from the side; the proxy fence
//! between ordinary writes and wgmma's reads from the pair of writers and readers. A slot is a
//! token: [`EmptySlot`] can only be filled, [`FullSlot`] only be read, and a slot that wgmma reads
//! can only be released once it is a [`RetiredSlot`].

mod consumer;
mod copies;
mod filling;
mod parts;
mod readers;
mod stage;
mod state;
mod tma;
mod writes;

pub use consumer::{Consumer, ConsumerEnd, FullSlot, Peek, RetiredSlot};
pub use copies::{Copier, CopiesInto, CopyPeek, CopySlot, CopyingSlot};
pub use parts::{PartEnd, PartPeek, PartProducer, PartSlot, Parts};
pub use readers::{
    CpAsyncReaders, Mma, MmaInTurn, MmaReaders, OrdinaryReads, Readers, Reads, ReadsInTurn,
    TakeTurns,
};
pub use stage::*;
pub use state::*;
pub use tma::{AcquirePeek, EmptySlot, Producer};
pub use writes::{WritePeek, WriteSlot, Writer};

use filling::{Filling, Layout};

use crate::cta::ClusterShape;
use crate::cta::{Place, Region};
use crate::cta::{Role, WARPGROUP_THREADS};

use core::marker::PhantomData;

/// A ring's name: a type of its own, so that ends and slots of two rings can't be mixed, and a
/// word for reports. Two regions of one plan with the same name do not compile.
///
/// Waits for nothing, signals nothing; PTX and CUTLASS: none.
///
/// ```
/// use pipeline::{names, ring::Name};
/// names! { MainLoop = "main loop" }
/// assert_eq!((MainLoop::NAME, MainLoop::FULL), ("main loop", "main loop.full"));
/// ```
pub trait Name: 'static {
    /// How reports call it.
    const NAME: &'static str;
    /// How reports call a ring's full barriers.
    const FULL: &'static str;
    /// How reports call a ring's empty barriers.
    const EMPTY: &'static str;
}

/// Declares names of rings and barriers: `names! { MainLoop = "main loop", Addend = "C" }`.
///
/// Waits for nothing, signals nothing; PTX and CUTLASS: none.
///
/// ```
/// use pipeline::{barrier::LoadOrderBarrier, prelude::*};
/// names! { MainLoop = "main loop", Addend = "C" }
/// type Order = LoadOrderBarrier<MainLoop>;
/// # assert_eq!(SmemPlan::<(Order, LoadOrderBarrier<Addend>)>::BYTES, 16);
/// ```
#[macro_export]
macro_rules! names {
    ($($(#[$doc:meta])* $name:ident = $text:literal),+ $(,)?) => {$(
        $(#[$doc])*
        #[doc = concat!("The name `", $text, "`.")]
        #[derive(Clone, Copy, Debug)]
        pub enum $name {}
        impl $crate::ring::Name for $name {
            const NAME: &'static str = $text;
            const FULL: &'static str = concat!($text, ".full");
            const EMPTY: &'static str = concat!($text, ".empty");
        }
    )+};
}

/// Closes [`Writers`] and [`Readers`]: the arrivals that a kind has are those that its ends make.
mod sealed {
    #[diagnostic::on_unimplemented(
        message = "`{Self}` can't fill or empty the slots of a ring",
        label = "these traits are closed",
        note = "arrivals follow from the kinds of writers and readers there are and are never stated: `Tma`, `TmaParts`, `Writes` and `CpAsync` fill, `Mma`, `MmaInTurn`, `Reads` and `ReadsInTurn` empty; a protocol of your own is for `pipeline::raw`"
    )]
    pub trait Sealed {}
}
use sealed::Sealed;

/// Who fills a slot of the stage `S`, which fixes the arrivals that its full barrier expects.
///
/// Waits for nothing. Signals nothing. PTX: the count of `mbarrier.init`. CUTLASS:
/// `params.producer_arv_count`.
///
/// ```
/// use half::bf16;
/// use pipeline::{prelude::*, ring::{TmaParts, Writers}};
/// type Stage = (Tile<bf16, 128, 64>, Tile<bf16, 128, 64>);
/// roles! { Fill = 1 x 40 registers }
/// assert_eq!(<Tma as Writers<Stage>>::ARRIVALS, 1);
/// assert_eq!(<TmaParts as Writers<Stage>>::ARRIVALS, 2);
/// assert_eq!(<Writes<Fill> as Writers<Stage>>::ARRIVALS, 4);
/// ```
pub trait Writers<S>: Sealed + 'static {
    /// Arrivals per slot.
    const ARRIVALS: usize;
}

/// One elected thread issues the TMA loads of every slot, and arms it with their bytes.
///
/// Waits for an empty slot. Signals one arrival, and the bytes, on the full barrier of each slot.
/// PTX: `mbarrier.arrive.expect_tx`, `cp.async.bulk.tensor.2d`. CUTLASS: the producer of
/// `PipelineTmaAsync`.
///
/// ```
/// # use {half::bf16, pipeline::prelude::*}; names! { Main = "main" } type Alone = Cluster<1, 1>;
/// # roles! { Load = 1 x 40 registers, Math = 1 x 232 registers } type Panel = Tile<bf16, 64, 64>;
/// const BYTES: u32 = SmemPlan::<(Ring<4, (Panel, Panel), Tma, Mma<Math>, Main, Alone>,)>::BYTES;
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Tma {}
impl Sealed for Tma {}
impl<S: Stage> Writers<S> for Tma {
    const ARRIVALS: usize = 1;
}

/// Each tile of the stage is loaded by a thread of its own, which arms the slot with that tile's
/// bytes.
///
/// Waits for an empty slot. Signals one arrival for each tile, with its bytes, on the full barrier.
/// PTX: `mbarrier.arrive.expect_tx`, `cp.async.bulk.tensor.2d`. CUTLASS: the producers of
/// `PipelineTransactionAsync`.
///
/// ```
/// # use {half::bf16, pipeline::{prelude::*, ring::TmaParts}}; names! { Main = "main" } type Alone = Cluster<1, 1>;
/// # roles! { Load = 1 x 40 registers, Math = 1 x 232 registers } type Panel = Tile<bf16, 64, 64>;
/// const BYTES: u32 = SmemPlan::<(Ring<4, (Panel, Panel), TmaParts, Mma<Math>, Main, Alone>,)>::BYTES;
/// ```
#[derive(Clone, Copy, Debug)]
pub enum TmaParts {}
impl Sealed for TmaParts {}
impl<S: Stage> Writers<S> for TmaParts {
    const ARRIVALS: usize = S::TILES;
}

/// All warps of role `R` fill every slot with ordinary stores; each warp arrives once.
///
/// Waits for an empty slot. Signals one arrival for each warp on the full barrier. PTX:
/// `mbarrier.arrive`. CUTLASS: the producers of `PipelineAsync`.
///
/// ```
/// # use {half::bf16, pipeline::prelude::*}; names! { Main = "main" } type Alone = Cluster<1, 1>;
/// # roles! { Load = 1 x 40 registers, Math = 1 x 232 registers } type Panel = Tile<bf16, 64, 64>;
/// const BYTES: u32 = SmemPlan::<(Ring<4, (Panel,), Writes<Load>, Reads<Math>, Main, Alone>,)>::BYTES;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Writes<R>(PhantomData<R>);
impl<R> Sealed for Writes<R> {}
impl<R: Role, S: Stage> Writers<S> for Writes<R> {
    const ARRIVALS: usize = 4 * R::GROUPS;
}

/// All threads of role `R` fill every slot with `cp.async`, and each has its copies' completion
/// told to the slot: one arrival a thread. The readers are [`Reads`].
///
/// Waits for an empty slot. Signals one arrival for each thread on the full barrier, when its
/// copies have landed. PTX: `cp.async.cg.shared.global`, `cp.async.mbarrier.arrive.noinc`. CUTLASS:
/// `PipelineAsync`, whose producers commit with `cpasync_barrier_arrive_noinc`.
///
/// ```
/// # use {half::bf16, pipeline::{prelude::*, ring::CpAsync}}; names! { Main = "main" } type Alone = Cluster<1, 1>;
/// # roles! { Load = 1 x 40 registers, Math = 1 x 232 registers } type Panel = Tile<bf16, 64, 64>;
/// const BYTES: u32 = SmemPlan::<(Ring<4, (Panel,), CpAsync<Load>, Reads<Math>, Main, Alone>,)>::BYTES;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CpAsync<R>(PhantomData<R>);
impl<R> Sealed for CpAsync<R> {}
impl<R: Role, S: Stage> Writers<S> for CpAsync<R> {
    const ARRIVALS: usize = WARPGROUP_THREADS as usize * R::GROUPS;
}

/// `STAGES` slots, each holding the tiles of `S`, filled by `W` and emptied by `R`; `N` is its name,
/// `K` the cluster over which loads are multicast.
///
/// A [`Region`] of a [`SmemPlan`](crate::cta::SmemPlan), which initialises it and hands out its
/// [`Ends`]. Memory: the slots, then the full barriers, then the empty ones.
///
/// Waits for nothing. Signals nothing. PTX: `mbarrier.init` of each barrier. CUTLASS:
/// `PipelineTmaAsync<Stages>`, `PipelineTransactionAsync<Stages>`, `PipelineAsync<Stages>`.
///
/// ```
/// # use {half::bf16, pipeline::{prelude::*, ring::*}};
/// # names! { Main = "main loop" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Panel = Tile<bf16, 128, 64>; type Alone = Cluster<1, 1>;
///
/// type MainLoop = Ring<4, (Panel, Panel), Tma, Mma<Math>, Main, Alone>;
/// type Plan = SmemPlan<(MainLoop,)>;
/// assert_eq!(Plan::BYTES, 4 * (2 * 128 * 128 + 16));
/// ```
/// The [crate's example](crate) is a kernel around such a ring, and runs.
pub struct Ring<const STAGES: usize, S, W, R, N, Cl>(PhantomData<(S, W, R, N, Cl)>);

impl<const STAGES: usize, S: Stage, W: Writers<S>, R: Readers, N: Name, Cl: ClusterShape>
    Ring<STAGES, S, W, R, N, Cl>
{
    const FULL_ARRIVALS: u32 = W::ARRIVALS as u32;
    /// Readers of every CTA that gets a copy of the slot must have let go of it.
    const EMPTY_ARRIVALS: u32 = {
        let ctas = if R::MULTICAST { Cl::SHARERS } else { 1 };
        (R::ARRIVALS * ctas) as u32
    };
}

/// The two ends of a ring, inert until a role takes them with `by`.
///
/// Waits for nothing, signals nothing; PTX and CUTLASS: none.
///
/// ```
/// # use {half::bf16, pipeline::{prelude::*, ring::*}};
/// # names! { Main = "main loop" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Panel = Tile<bf16, 128, 64>; type Alone = Cluster<1, 1>;
///
/// # type Operands = (Panel, Panel);
/// fn apart(ring: Ends<4, Operands, Tma, Mma<Math>, Main, Alone>, group: &Warpgroup<Math, Alone>) {
///     let _for_the_loader = ring.producer;
///     let _full = ring.consumer.by(group);
/// }
/// ```
pub struct Ends<const STAGES: usize, S, W, R, N, Cl> {
    /// For those who fill.
    pub producer: ProducerEnd<STAGES, S, W, R, N, Cl>,
    /// For those who read.
    pub consumer: ConsumerEnd<STAGES, S, R, N, Cl>,
}

/// The producer end before a role has taken it.
///
/// Waits for nothing. Signals nothing. PTX: none. CUTLASS: `Params::role` =
/// `ThreadCategory::Producer`.
///
/// ```
/// # use {half::bf16, pipeline::{prelude::*, ring::*}};
/// # names! { Main = "main loop" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Panel = Tile<bf16, 128, 64>; type Alone = Cluster<1, 1>;
///
/// # type End = ProducerEnd<4, (Panel,), Tma, Mma<Math>, Main, Alone>;
/// fn take(end: End, one: &pipeline::cta::Elected<Load, Alone>) {
///     let mut empty: Producer<4, (Panel,), Main> = end.by(one);
///     let _slot = empty.acquire();
/// }
/// ```
#[must_use]
pub struct ProducerEnd<const STAGES: usize, S, W, R, N, Cl> {
    base: u32,
    ring: PhantomData<(S, W, R, N, Cl, *const ())>,
}

// SAFETY: slots and barriers lie inside BYTES; `init` gives each barrier the count that the
// protocol of the ends produces: FULL_ARRIVALS fills, EMPTY_ARRIVALS releases.
unsafe impl<const STAGES: usize, S: Stage, W: Writers<S>, R: Readers, N: Name, Cl: ClusterShape>
    Region for Ring<STAGES, S, W, R, N, Cl>
{
    const BYTES: usize = {
        assert!(STAGES >= 1 && STAGES <= 32, "a ring has from 1 to 32 stages");
        assert!(S::BYTES < 1 << 20, "one slot's transaction bytes exceed the mbarrier's 2^20 - 1");
        STAGES * (S::BYTES + 16)
    };
    const ALIGN: usize = S::ALIGN;
    const NAME: &'static str = N::NAME;
    type Ends = Ends<STAGES, S, W, R, N, Cl>;

    #[inline(always)]
    unsafe fn init(place: Place) {
        for stage in 0..STAGES as u32 {
            let full = Layout::<STAGES, S>::full(place.base, stage);
            let empty = Layout::<STAGES, S>::empty(place.base, stage);
            // SAFETY: both barriers are this ring's own memory, initialised once.
            unsafe {
                isa::mbarrier::init(full, Self::FULL_ARRIVALS);
                isa::mbarrier::init(empty, Self::EMPTY_ARRIVALS);
            }
            isa::debug::label_barrier(full, N::FULL, stage);
            isa::debug::label_barrier(empty, N::EMPTY, stage);
        }
    }

    #[inline(always)]
    unsafe fn ends(place: Place) -> Self::Ends {
        Ends {
            producer: ProducerEnd { base: place.base, ring: PhantomData },
            consumer: ConsumerEnd::new(place.base),
        }
    }
}
