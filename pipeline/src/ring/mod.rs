//! The ring: a circular buffer of `STAGES` slots in shared memory, between the threads that fill the slots and the threads
//! that read them (CUTLASS: a pipeline).
//!
//! Invariant: a slot is written only after every reader has released it, and read only after it has
//! been filled. Each slot has two mbarriers, full and empty, that enforce this.
//!
//! ```text
//!            acquire: wait empty        wait: wait full
//!   producer ───────────────► slot i ───────────────► consumer
//!            load / commit: full        release: arrive on empty, in this CTA and in the peers that share the slot
//! ```
//!
//! One type, [`Ring`], covers CUTLASS's pipelines. Its type parameters say who writes the slots and
//! who reads them:
//!
//! | CUTLASS | writers | readers |
//! |---|---|---|
//! | `PipelineTmaAsync` | [`Tma`] | [`Mma`] or [`Reads`] |
//! | `PipelineTmaUmmaAsync` | [`Tma`] | [`Umma`] |
//! | `PipelineUmmaConsumerAsync` | [`Writes`] | [`Umma`] |
//! | `PipelineTmaUmmaAsync` with 2SM loads | [`Tma2Sm`] | [`Umma`] of [`TwoSm`](crate::cta::TwoSm) |
//! | `PipelineTransactionAsync` | [`TmaParts`] | [`Mma`] or [`Reads`] |
//! | `PipelineAsync` | [`Writes`] | [`Mma`] or [`Reads`] |
//! | `PipelineAsync`, `cpasync_barrier_arrive_noinc` | [`CpAsync`] | [`Reads`] |
//!
//! The types fix what CUTLASS leaves to its user. Arrival counts follow from the roles and the
//! cluster. Transaction bytes follow from the tiles. The starting phase follows from the side
//! (producer or consumer). The proxy fence between ordinary stores and wgmma's reads follows from
//! the pair of writers and readers.
//!
//! A slot is a token, and its type says what may be done with it. An [`EmptySlot`] can only be
//! filled, a [`FullSlot`] can only be read, and a slot that wgmma reads can be released only after
//! it has become a [`RetiredSlot`].
//!
//! Type parameters have the same names throughout: `St` is what a slot holds, `Wr` the writers,
//! `Rd` the readers, `Ro` a role, `Tag` the ring's name, `Cl` the cluster's shape.

mod consumer;
mod copies;
mod parts;
mod position;
mod readers;
mod scaled;
mod stage;
mod state;
mod tma;
mod tma_pair;
mod umma;
mod writes;

pub(crate) use consumer::warp_row;
pub use consumer::{Consumer, ConsumerEnd, FullSlot, Peek, RetiredSlot};
pub use copies::{Copier, CopiesInto, CopyPeek, CopySlot, CopyingSlot};
pub use parts::{PartEnd, PartPeek, PartProducer, PartSlot, Parts};
pub use readers::{
    CpAsyncReaders, Mma, MmaInTurn, MmaReaders, MmaReads, OrdinaryReads, Readers, Reads,
    ReadsInTurn, TakeTurns,
};
pub use scaled::{BlockScaled, BlockScaledSwapAb};
pub use stage::*;
pub use state::*;
pub use tma::{AcquirePeek, EmptySlot, Producer};
pub use tma_pair::{PairProducer, PairSlot, Tma2Sm};
pub use umma::{Umma, UmmaConsumer, UmmaSlot};
pub use writes::{WritePeek, WriteSlot, Writer};

use position::{Layout, ProducerPosition};

use crate::cta::{ClusterShape, is_pair};
use crate::cta::{Place, Region};
use crate::cta::{Role, WARPGROUP_THREADS};

use core::marker::PhantomData;
use isa::kernel::{Part, RegionFacts};

/// The name of a ring or barrier, as a type.
///
/// Two rings have different names, so their ends and slots can't be mixed. Diagnostics print the
/// name. An empty name does not compile, and neither do two regions of one plan with the same name.
///
/// ```
/// use warpipe_pipeline::{names, ring::Name};
/// names! { MainLoop = "main loop" }
/// assert_eq!((MainLoop::NAME, MainLoop::FULL), ("main loop", "main loop.full"));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the name of a ring or barrier",
    label = "not a name",
    note = "declare it: `names! {{ MainLoop = \"main loop\" }}`"
)]
pub trait Name: 'static {
    /// The name that diagnostics print. It is not empty.
    const NAME: &'static str;
    /// The name that diagnostics print for a ring's full barriers.
    const FULL: &'static str;
    /// The name that diagnostics print for a ring's empty barriers.
    const EMPTY: &'static str;
}

/// The name of a region, which is compared with those of the other regions of its plan.
pub(crate) const fn name_of<N: Name>() -> &'static str {
    assert!(
        !N::NAME.is_empty(),
        "a ring or barrier has an empty name: two of them in one plan could be mixed up"
    );
    N::NAME
}

/// Declares names of rings and barriers: `names! { MainLoop = "main loop", Addend = "C" }`.
///
/// ```
/// use warpipe_pipeline::{barrier::LoadOrderBarrier, prelude::*};
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
        const _: () = ::core::assert!(
            !$text.is_empty(),
            "the name of a ring or barrier is empty: write what reports shall call it"
        );
        impl $crate::ring::Name for $name {
            const NAME: &'static str = $text;
            const FULL: &'static str = concat!($text, ".full");
            const EMPTY: &'static str = concat!($text, ".empty");
        }
    )+};
}

/// Seals [`Writers`] and [`Readers`]: the arrivals that a kind states must be those that its ends
/// make.
mod sealed {
    #[diagnostic::on_unimplemented(
        message = "`{Self}` can't fill or empty the slots of a ring",
        label = "these traits are closed",
        note = "arrivals follow from the kinds of writers and readers and are never stated: `Tma`, `Tma2Sm`, `TmaParts`, `Writes` and `CpAsync` fill, `Mma`, `MmaReads`, `MmaInTurn`, `Umma`, `Reads` and `ReadsInTurn` empty; a protocol of your own is for `pipeline::raw`"
    )]
    pub trait Sealed {}
}
use sealed::Sealed;

/// The writers of a ring's slots: they fix the arrivals that a full barrier expects.
///
/// (PTX: the count operand of `mbarrier.init`; CUTLASS `params.producer_arv_count`.)
///
/// ```
/// use half::bf16;
/// use warpipe_pipeline::{prelude::*, ring::{TmaParts, Writers}};
/// type Stage = (Tile<bf16, 128, 64>, Tile<bf16, 128, 64>);
/// roles! { Fill = 1 x 40 registers }
/// assert_eq!(<Tma as Writers<Stage>>::ARRIVALS, 1);
/// assert_eq!(<TmaParts as Writers<Stage>>::ARRIVALS, 2);
/// assert_eq!(<Writes<Fill> as Writers<Stage>>::ARRIVALS, 4);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be the writers of a ring",
    label = "a role alone does not say how it writes",
    note = "writers are `Tma`, `TmaParts`, `Writes<Role>` (ordinary stores) and `CpAsync<Role>`"
)]
pub trait Writers<St>: Sealed + 'static {
    /// Arrivals per fill of a slot.
    const ARRIVALS: usize;
    /// Whether the writers are those of a pair of CTAs.
    const PAIR: bool = false;
    /// Who arrives, as `warpipe inspect` prints it.
    const BY: &'static str = "";
}

/// One elected thread arms every slot with its bytes and issues its TMA loads.
///
/// Waits for an empty slot. Signals one arrival and the transaction bytes on the slot's full
/// barrier. (PTX `mbarrier.arrive.expect_tx`, `cp.async.bulk.tensor.2d`; CUTLASS: the producer of
/// `PipelineTmaAsync`.)
///
/// ```
/// # use {half::bf16, warpipe_pipeline::prelude::*}; names! { Main = "main" } type Alone = Cluster<1, 1>;
/// # roles! { Load = 1 x 40 registers, Math = 1 x 232 registers } type Panel = Tile<bf16, 64, 64>;
/// const BYTES: u32 = SmemPlan::<(Ring<4, (Panel, Panel), Tma, Mma<Math>, Main, Alone>,)>::BYTES;
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Tma {}
impl Sealed for Tma {}
impl<St: Stage> Writers<St> for Tma {
    const ARRIVALS: usize = 1;
    const BY: &'static str = "the thread that loads, with the slot's bytes";
}

/// Each tile of the slot is loaded by its own thread, which arms the slot with that tile's bytes.
///
/// Waits for an empty slot. Signals one arrival per tile, and that tile's transaction bytes, on the
/// full barrier. (PTX `mbarrier.arrive.expect_tx`, `cp.async.bulk.tensor.2d`; CUTLASS: the
/// producers of `PipelineTransactionAsync`.)
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{prelude::*, ring::TmaParts}}; names! { Main = "main" } type Alone = Cluster<1, 1>;
/// # roles! { Load = 1 x 40 registers, Math = 1 x 232 registers } type Panel = Tile<bf16, 64, 64>;
/// const BYTES: u32 = SmemPlan::<(Ring<4, (Panel, Panel), TmaParts, Mma<Math>, Main, Alone>,)>::BYTES;
/// ```
#[derive(Clone, Copy, Debug)]
pub enum TmaParts {}
impl Sealed for TmaParts {}
impl<St: Stage> Writers<St> for TmaParts {
    const ARRIVALS: usize = St::TILES;
    const BY: &'static str = "the thread of each tile, with its bytes";
}

/// All warps of role `Ro` fill every slot with ordinary stores.
///
/// Waits for an empty slot. Signals one arrival per warp on the full barrier. (PTX
/// `mbarrier.arrive`; CUTLASS: the producers of `PipelineAsync`.)
///
/// ```
/// # use {half::bf16, warpipe_pipeline::prelude::*}; names! { Main = "main" } type Alone = Cluster<1, 1>;
/// # roles! { Load = 1 x 40 registers, Math = 1 x 232 registers } type Panel = Tile<bf16, 64, 64>;
/// const BYTES: u32 = SmemPlan::<(Ring<4, (Panel,), Writes<Load>, Reads<Math>, Main, Alone>,)>::BYTES;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Writes<Ro>(PhantomData<Ro>);
impl<Ro> Sealed for Writes<Ro> {}
impl<Ro: Role, St: Stage> Writers<St> for Writes<Ro> {
    const ARRIVALS: usize = 4 * Ro::GROUPS;
    const BY: &'static str = "each warp that writes";
}

/// All threads of role `Ro` fill every slot with `cp.async`. The readers must be [`Reads`].
///
/// Waits for an empty slot. Signals one arrival per thread on the full barrier; the hardware makes
/// the arrival when the thread's copies have landed. (PTX `cp.async.cg.shared.global`,
/// `cp.async.mbarrier.arrive.noinc`; CUTLASS `PipelineAsync`, whose producers commit with
/// `cpasync_barrier_arrive_noinc`.)
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{prelude::*, ring::CpAsync}}; names! { Main = "main" } type Alone = Cluster<1, 1>;
/// # roles! { Load = 1 x 40 registers, Math = 1 x 232 registers } type Panel = Tile<bf16, 64, 64>;
/// const BYTES: u32 = SmemPlan::<(Ring<4, (Panel,), CpAsync<Load>, Reads<Math>, Main, Alone>,)>::BYTES;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CpAsync<Ro>(PhantomData<Ro>);
impl<Ro> Sealed for CpAsync<Ro> {}
impl<Ro: Role, St: Stage> Writers<St> for CpAsync<Ro> {
    const ARRIVALS: usize = WARPGROUP_THREADS as usize * Ro::GROUPS;
    const BY: &'static str = "each thread's cp.async";
}

/// A ring of `STAGES` slots that each hold the tiles of `St`. `Wr` fill the slots, and `Rd` read them. `Tag` is the
/// ring's name, and `Cl` is the cluster across which loads are multicast.
///
/// A ring is a [`Region`] of a [`SmemPlan`](crate::cta::SmemPlan), which initialises it and returns its [`Ends`].
/// Shared memory holds the slots, then the data beside them ([`Stage::BESIDE_BYTES`]), then the full barriers, then the
/// empty barriers.
///
/// (PTX `mbarrier.init` of each barrier; CUTLASS `PipelineTmaAsync<Stages>`,
/// `PipelineTransactionAsync<Stages>`, `PipelineAsync<Stages>`.)
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{prelude::*, ring::*}};
/// # names! { Main = "main loop" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Panel = Tile<bf16, 128, 64>; type Alone = Cluster<1, 1>;
///
/// type MainLoop = Ring<4, (Panel, Panel), Tma, Mma<Math>, Main, Alone>;
/// type Plan = SmemPlan<(MainLoop,)>;
/// assert_eq!(Plan::BYTES, 4 * (2 * 128 * 128 + 16));
/// ```
/// The [crate's example](crate) is a complete kernel around such a ring.
pub struct Ring<
    const STAGES: usize,
    St: Stage,
    Wr: Writers<St>,
    Rd: Readers,
    Tag: Name,
    Cl: ClusterShape,
>(PhantomData<(St, Wr, Rd, Tag, Cl)>);

impl<const STAGES: usize, St: Stage, Wr: Writers<St>, Rd: Readers, Tag: Name, Cl: ClusterShape>
    Ring<STAGES, St, Wr, Rd, Tag, Cl>
{
    const FULL_ARRIVALS: u32 = Wr::ARRIVALS as u32;
    /// Every CTA that receives a copy of the slot's data must release it.
    const EMPTY_ARRIVALS: u32 = {
        let ctas = if Rd::MULTICAST { Cl::SHARERS } else { 1 };
        (Rd::ARRIVALS * ctas) as u32
    };

    // The parts of the region, as `warpipe inspect` prints them.
    const SLOTS: Part =
        Part::Tiles { what: "slots", offset: 0, count: STAGES as u32, tiles: St::FACTS };
    const BESIDE: Part = Part::Bytes {
        what: "beside the slots",
        offset: Layout::<STAGES, St>::BESIDE,
        bytes: (STAGES * St::BESIDE_BYTES) as u32,
    };
    const FULL: Part = Part::Mbarriers {
        what: "full",
        offset: Layout::<STAGES, St>::full(0, 0),
        count: STAGES as u32,
        arrivals: Self::FULL_ARRIVALS,
        by: Wr::BY,
    };
    const EMPTY: Part = Part::Mbarriers {
        what: "empty",
        offset: Layout::<STAGES, St>::empty(0, 0),
        count: STAGES as u32,
        arrivals: Self::EMPTY_ARRIVALS,
        by: Rd::BY,
    };
}

/// The two ends of a ring, before a role takes them with `by`.
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{prelude::*, ring::*}};
/// # names! { Main = "main loop" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Panel = Tile<bf16, 128, 64>; type Alone = Cluster<1, 1>;
///
/// # type Operands = (Panel, Panel);
/// fn apart(ring: Ends<4, Operands, Tma, Mma<Math>, Main, Alone>, group: &Warpgroup<Math, Alone>) {
///     let _for_the_loader = ring.producer;
///     let _full = ring.consumer.by(group);
/// }
/// ```
pub struct Ends<const STAGES: usize, St, Wr, Rd, Tag, Cl> {
    /// The writers' end.
    pub producer: ProducerEnd<STAGES, St, Wr, Rd, Tag, Cl>,
    /// The readers' end.
    pub consumer: ConsumerEnd<STAGES, St, Rd, Tag, Cl>,
}

/// The producer end, before a role takes it.
///
/// (CUTLASS `Params::role` = `ThreadCategory::Producer`.)
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{prelude::*, ring::*}};
/// # names! { Main = "main loop" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Panel = Tile<bf16, 128, 64>; type Alone = Cluster<1, 1>;
///
/// # type End = ProducerEnd<4, (Panel,), Tma, Mma<Math>, Main, Alone>;
/// fn take(end: End, one: &warpipe_pipeline::cta::Elected<Load, Alone>) {
///     let mut empty: Producer<4, (Panel,), Main> = end.by(one);
///     let _slot = empty.acquire();
/// }
/// ```
#[must_use]
pub struct ProducerEnd<const STAGES: usize, St, Wr, Rd, Tag, Cl> {
    base: u32,
    ring: PhantomData<(St, Wr, Rd, Tag, Cl, *const ())>,
}

// SAFETY: slots and barriers lie inside BYTES. `init` gives each barrier the arrival count that the
// ends produce: FULL_ARRIVALS per fill, EMPTY_ARRIVALS per release.
unsafe impl<
    const STAGES: usize,
    St: Stage,
    Wr: Writers<St>,
    Rd: Readers,
    Tag: Name,
    Cl: ClusterShape,
> Region for Ring<STAGES, St, Wr, Rd, Tag, Cl>
{
    const BYTES: usize = {
        assert!(STAGES >= 1 && STAGES <= 32, "a ring has from 1 to 32 stages");
        assert!(St::BYTES < 1 << 20, "one slot's transaction bytes exceed the mbarrier's 2^20 - 1");
        assert!(
            Wr::PAIR == Rd::PAIR,
            "a pair of CTAs loads with `Tma2Sm` what it multiplies with `Umma<Role, TwoSm>`: take both, or neither"
        );
        assert!(
            !Rd::PAIR || is_pair::<Cl>(),
            "a pair of CTAs is a cluster of 2 x 1: `Cluster<2, 1>`"
        );
        STAGES * (St::SLOT_BYTES + St::BESIDE_BYTES + 16)
    };
    const ALIGN: usize = St::ALIGN;
    const NAME: &'static str = name_of::<Tag>();
    const FACTS: RegionFacts = RegionFacts::of(
        "Ring",
        if St::BESIDE_BYTES == 0 {
            &[Self::SLOTS, Self::FULL, Self::EMPTY]
        } else {
            &[Self::SLOTS, Self::BESIDE, Self::FULL, Self::EMPTY]
        },
    );
    type Ends = Ends<STAGES, St, Wr, Rd, Tag, Cl>;

    #[isa::forceinline]
    unsafe fn init(place: Place) {
        for stage in 0..STAGES as u32 {
            let full = Layout::<STAGES, St>::full(place.base, stage);
            let empty = Layout::<STAGES, St>::empty(place.base, stage);
            // SAFETY: both barriers are this ring's own memory, initialised once.
            unsafe {
                isa::mbarrier::init(full, Self::FULL_ARRIVALS);
                isa::mbarrier::init(empty, Self::EMPTY_ARRIVALS);
            }
            isa::debug::label_barrier(full, Tag::FULL, stage);
            isa::debug::label_barrier(empty, Tag::EMPTY, stage);
        }
    }

    #[isa::forceinline]
    unsafe fn ends(place: Place) -> Self::Ends {
        Ends {
            producer: ProducerEnd { base: place.base, ring: PhantomData },
            consumer: ConsumerEnd::new(place.base),
        }
    }
}
