//! `LoadOrderBarrier`: the epilogue's loads start after the main loop's first loads.
//!
//! Invariant: step i of the epilogue's loads starts after step i of the main loop's loads is issued (or after
//! step i - 1, with [`EpilogueFirst`]).
//!
//! The load warps of the main loop and of the epilogue share one TMA unit. The CTA needs C only at the end of the
//! tile. If the epilogue's loads of C were issued first, the main loop's prologue would queue behind them, and the
//! tensor cores would wait. The main loop's load warp arrives when it has *issued* its prologue;
//! the ring tracks when the bytes land. The epilogue's load warp waits for this arrival.
//!
//! | CUTLASS `OrderedSequenceBarrier<1, 2>` | Mojo `LoadOrderBarrier` | here |
//! |---|---|---|
//! | constructor, `params.group_size` | `init(arrive_count)` | the plan, `ARRIVALS` |
//! | `params.group_id` 0 or 1 | which methods are called | [`MainLoopLoads`] or [`EpilogueLoads`] |
//! | state's first phase, by `group_id` | `initial_phase` 0 or 1 | [`MainLoopFirst`] or [`EpilogueFirst`] |
//! | `arrive` (arrives and steps) | `arrive_and_step` | [`MainLoopLoads::arrive_and_step`] |
//! | - | `arrive`, then `step` | [`MainLoopLoads::arrive`], then [`Arrived::step`] |
//! | `wait`, then `advance` | `wait_and_step` | [`EpilogueLoads::wait_and_step`] |
//! | `wait` | `wait`, then `step` | [`EpilogueLoads::wait`], then [`Passed::step`] |
//!
//! CUTLASS arrives once per kernel, and Mojo once per tile. Both work here. A kernel that arrives once per tile
//! must keep the arriver less than two steps ahead of the waiter, which otherwise misses a phase of the mbarrier.
//! The model of the SM reports this mistake.
//!
//! CUTLASS and Mojo have one type with all methods. Here each end is a type of its own with the methods that it
//! needs, so that a kernel that swaps the two warps does not compile.
//!
//! The barrier orders one direction. A pair of them, one in each direction and with opposite starts, is
//! CUTLASS's `OrderedSequenceBarrier<1, 2>` for two threads (pipeline/tests/integration/order.rs).

use crate::cta::ClusterShape;
use crate::cta::{Elected, Role};
use crate::cta::{Place, Region};
use crate::raw::MAX_COUNT;
use crate::ring::{Name, name_of};
use core::marker::PhantomData;
use isa::device;
use isa::kernel::{Part, RegionFacts};

/// Closes [`Start`]: the phases follow from the side that goes first.
mod sealed {
    #[diagnostic::on_unimplemented(
        message = "`{Self}` can't say which loads go first",
        label = "this trait is closed",
        note = "a load-order barrier starts as `MainLoopFirst` or as `EpilogueFirst`; its phases follow from that"
    )]
    pub trait Sealed {}
}
use sealed::Sealed;

/// The side whose loads go first: it determines what the waiting end's first step waits for.
///
/// (CUTLASS: the first phase of `OrderedSequenceBarrier`'s state, `params.group_id == 0`; Mojo
/// `initial_phase`.)
///
/// ```
/// use warpipe_pipeline::barrier::{EpilogueFirst, MainLoopFirst, Start};
/// assert_eq!((MainLoopFirst::FIRST_PASSES, EpilogueFirst::FIRST_PASSES), (false, true));
/// ```
pub trait Start: Sealed + 'static {
    /// Whether the waiting end's first step passes without a wait.
    const FIRST_PASSES: bool;
}

/// The main loop's loads go first: each step of the epilogue's loads waits for the same step of the main loop.
///
/// (CUTLASS `params.group_id` 1 for the epilogue; Mojo `initial_phase` 0.)
///
/// ```
/// # use warpipe_pipeline::{barrier::*, prelude::*};
/// # names! { First = "main loop first" }
/// type Plan = SmemPlan<(LoadOrderBarrier<First, 1, MainLoopFirst>,)>;
/// # fn same(plan: LoadOrderBarrier<First>) -> LoadOrderBarrier<First, 1, MainLoopFirst> { plan }
/// ```
#[derive(Clone, Copy, Debug)]
pub enum MainLoopFirst {}

/// The epilogue's loads go first: the first step passes, and each later step waits for the main loop's previous
/// step.
///
/// The first step does not test the barrier. The usual first phase of 1 would wait for the phase before phase 0,
/// and this wait hangs if the main loop has already arrived.
///
/// (CUTLASS `params.group_id` 0 for the epilogue; Mojo `initial_phase` 1.)
///
/// ```
/// # use warpipe_pipeline::{barrier::*, prelude::*, cta::Elected};
/// # names! { First = "C first" } roles! { Load = 1 x 40 registers }
/// # type One = Elected<Load, Cluster<1, 1>>;
/// type Plan = SmemPlan<(LoadOrderBarrier<First, 1, EpilogueFirst>,)>;
///
/// fn loads(ends: LoadOrderEnds<First, 1, EpilogueFirst>, one: &One) {
///     let mut epilogue = ends.epilogue.by(one); // in one warp
///     epilogue.wait_and_step(); // passes
///     let mut main_loop = ends.main_loop.by(one); // in another
///     main_loop.arrive_and_step(); // what the epilogue's next step waits for
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub enum EpilogueFirst {}

impl Sealed for MainLoopFirst {}
impl Start for MainLoopFirst {
    const FIRST_PASSES: bool = false;
}
impl Sealed for EpilogueFirst {}
impl Start for EpilogueFirst {
    const FIRST_PASSES: bool = true;
}

/// A barrier that makes the epilogue's loads start after the main loop's first loads.
///
/// It is one mbarrier, which expects `ARRIVALS` arrivals per phase, one from each thread that loads for the main
/// loop. `N` is its name, and `F` is the side whose loads go first.
///
/// (PTX `mbarrier.init`; CUTLASS `OrderedSequenceBarrier<1, 2>` as `LoadWarpOrderBarrier`.)
///
/// ```
/// # use warpipe_pipeline::{barrier::*, prelude::*, cta::Elected};
/// # names! { First = "main loop first" } roles! { Load = 1 x 40 registers }
/// # type One = Elected<Load, Cluster<1, 1>>;
/// # use std::sync::Mutex;
/// # roles! { Math = 1 x 232 registers }
/// type Plan = SmemPlan<(LoadOrderBarrier<First>,)>;
///
/// fn kernel(cta: Cta<(Load, Math), Cluster<1, 1>, Plan>, log: &Mutex<Vec<&str>>) {
///     let (cta, (order,)) = cta.init();
///     cta.specialize(
///         |load| {
///             load.two_warps(
///                 |warp| {
///                     let Some(one) = warp.elect() else { return };
///                     log.lock().unwrap().push("A and B"); // the main loop's first loads
///                     order.main_loop.by(&one).arrive_and_step();
///                 },
///                 |warp| {
///                     let Some(one) = warp.elect() else { return };
///                     order.epilogue.by(&one).wait_and_step();
///                     log.lock().unwrap().push("C");
///                 },
///             );
///         },
///         |_| {},
///     );
/// }
/// # mod model { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/model.rs")); }
/// # let (memory, log) = (sim::GlobalMemory::new(), Mutex::new(Vec::new()));
/// # model::run(1, &memory, |cta| kernel(cta, &log)).unwrap();
/// assert_eq!(log.into_inner().unwrap(), ["A and B", "C"]);
/// ```
pub struct LoadOrderBarrier<N, const ARRIVALS: usize = 1, F = MainLoopFirst>(PhantomData<(N, F)>);

/// The two ends of a [`LoadOrderBarrier`], which threads take with `by`.
///
/// (CUTLASS `params.group_id` 0 and 1, or 1 and 0 with [`EpilogueFirst`].)
///
/// ```
/// # use warpipe_pipeline::{barrier::*, prelude::*, cta::Elected};
/// # names! { First = "main loop first" } roles! { Load = 1 x 40 registers }
/// # type One = Elected<Load, Cluster<1, 1>>;
/// fn apart(ends: LoadOrderEnds<First>, one: &One) {
///     let _arrives: MainLoopLoads<First> = ends.main_loop.by(one);
///     let _waits: EpilogueLoads<First> = ends.epilogue.by(one);
/// }
/// ```
pub struct LoadOrderEnds<N, const ARRIVALS: usize = 1, F = MainLoopFirst> {
    /// The end of the warp, or warps, that load the main loop's operands.
    pub main_loop: MainLoopEnd<N, ARRIVALS>,
    /// The end of the warp that loads the epilogue's operands.
    pub epilogue: EpilogueEnd<N, F>,
}

// SAFETY: one mbarrier in its 8 bytes. It has ARRIVALS arrivers: `split` makes that many main-loop ends, none is
// Copy, and one thread takes each.
unsafe impl<N: Name, const ARRIVALS: usize, F: Start> Region for LoadOrderBarrier<N, ARRIVALS, F> {
    const BYTES: usize = {
        assert!(
            ARRIVALS >= 1 && ARRIVALS <= MAX_COUNT,
            "a load-order barrier expects from 1 to 2^20 - 1 arrivals, one from each thread that \
             loads for the main loop"
        );
        8
    };
    const ALIGN: usize = 8;
    const NAME: &'static str = name_of::<N>();
    const FACTS: RegionFacts = RegionFacts::of(
        "LoadOrderBarrier",
        &[Part::Mbarriers {
            what: "",
            offset: 0,
            count: 1,
            arrivals: ARRIVALS as u32,
            by: "each thread that loads for the main loop",
        }],
    );
    type Ends = LoadOrderEnds<N, ARRIVALS, F>;
    #[isa::forceinline]
    unsafe fn init(place: Place) {
        // SAFETY: the region's own memory, initialised once.
        unsafe { isa::mbarrier::init(place.base, ARRIVALS as u32) };
        isa::debug::label_barrier(place.base, N::NAME, 0);
    }
    #[isa::forceinline]
    unsafe fn ends(place: Place) -> Self::Ends {
        LoadOrderEnds {
            main_loop: MainLoopEnd { barrier: place.base, name: PhantomData },
            epilogue: EpilogueEnd { barrier: place.base, name: PhantomData },
        }
    }
}

/// The main loop's end before a thread has taken it; `ARRIVALS` threads take a part each.
///
/// (CUTLASS `params.group_id` 0.)
///
/// ```
/// # use warpipe_pipeline::{barrier::*, prelude::*, cta::Elected};
/// # names! { First = "main loop first" } roles! { Load = 1 x 40 registers }
/// # type One = Elected<Load, Cluster<1, 1>>;
/// /// Two threads load for the main loop. A step is complete when both have arrived.
/// fn split(end: MainLoopEnd<First, 2>, one: &One) {
///     let [a, _b] = end.split();
///     a.by(one).arrive_and_step();
/// }
/// ```
#[must_use]
pub struct MainLoopEnd<N, const ARRIVALS: usize = 1> {
    barrier: u32,
    name: PhantomData<(N, *const ())>,
}
impl<N: Name> MainLoopEnd<N> {
    /// Gives the end to an elected thread.
    ///
    /// See the example of [`LoadOrderBarrier`].
    #[isa::forceinline]
    pub fn by<Ro: Role, Cl: ClusterShape>(self, _one: &Elected<Ro, Cl>) -> MainLoopLoads<N> {
        MainLoopLoads { barrier: self.barrier, name: PhantomData }
    }
}
impl<N: Name, const ARRIVALS: usize> MainLoopEnd<N, ARRIVALS> {
    /// Splits the end into the parts of the threads that load for the main loop, one for each.
    ///
    /// A step is complete when all of them have arrived. (CUTLASS `params.group_size`.) See the example of
    /// [`MainLoopEnd`].
    #[isa::forceinline]
    pub fn split(self) -> [MainLoopEnd<N>; ARRIVALS] {
        core::array::from_fn(|_| MainLoopEnd { barrier: self.barrier, name: PhantomData })
    }
}

/// The main loop's end, which arrives.
///
/// (PTX `mbarrier.arrive`; CUTLASS `OrderedSequenceBarrier::arrive`, in group 0.)
///
/// ```
/// # use warpipe_pipeline::{barrier::*, prelude::*, cta::Elected};
/// # names! { First = "main loop first" } roles! { Load = 1 x 40 registers }
/// # type One = Elected<Load, Cluster<1, 1>>;
/// fn per_tile(mut order: MainLoopLoads<First>, tiles: u32) {
///     for _tile in 0..tiles {
///         // The prologue's loads are issued; the steady state follows.
///         order.arrive_and_step();
///     }
/// }
/// ```
#[must_use]
pub struct MainLoopLoads<N> {
    barrier: u32,
    name: PhantomData<(N, *const ())>,
}
impl<N: Name> MainLoopLoads<N> {
    /// Signals that the prologue loads of this step are issued.
    ///
    /// The end can arrive again only after the returned token is stepped. (PTX `mbarrier.arrive`; CUTLASS
    /// `OrderedSequenceBarrier::arrive`, without its step.) See the example of [`Arrived`].
    #[device]
    pub fn arrive(&mut self) -> Arrived<'_> {
        // SAFETY: the plan initialised the barrier with one arrival for each of these ends, and one thread holds
        // this end.
        unsafe { isa::mbarrier::arrive(self.barrier) };
        Arrived { end: PhantomData }
    }
    /// Signals that the prologue loads of this step are issued, and steps.
    ///
    /// It is [`arrive`](Self::arrive) and [`step`](Arrived::step). (PTX `mbarrier.arrive`; CUTLASS
    /// `OrderedSequenceBarrier::arrive`.) See the example of [`MainLoopLoads`].
    #[device]
    pub fn arrive_and_step(&mut self) {
        self.arrive().step();
    }
}

/// The token of a step whose arrival is made. While a thread holds it, the end can't arrive again.
///
/// ```
/// # use warpipe_pipeline::{barrier::*, prelude::*, cta::Elected};
/// # names! { First = "main loop first" } roles! { Load = 1 x 40 registers }
/// # type One = Elected<Load, Cluster<1, 1>>;
/// fn once(mut order: MainLoopLoads<First>) {
///     let arrived: Arrived<'_> = order.arrive();
///     arrived.step();
/// }
/// ```
#[must_use = "an arrival is followed by `step()`: the next one is the next tile's"]
pub struct Arrived<'e> {
    end: PhantomData<&'e mut ()>,
}
impl Arrived<'_> {
    /// Advances to the next step.
    ///
    /// (CUTLASS `PipelineState::operator++`.) See the example of [`Arrived`].
    #[isa::forceinline]
    pub fn step(self) {}
}

/// The epilogue's end before a thread has taken it.
///
/// (CUTLASS `params.group_id` 1, or 0 with [`EpilogueFirst`].)
///
/// ```
/// # use warpipe_pipeline::{barrier::*, prelude::*, cta::Elected};
/// # names! { First = "main loop first" } roles! { Load = 1 x 40 registers }
/// # type One = Elected<Load, Cluster<1, 1>>;
/// fn take(end: EpilogueEnd<First>, one: &One) {
///     end.by(one).wait_and_step();
/// }
/// ```
#[must_use]
pub struct EpilogueEnd<N, F = MainLoopFirst> {
    barrier: u32,
    name: PhantomData<(N, F, *const ())>,
}
impl<N: Name, F: Start> EpilogueEnd<N, F> {
    /// Gives the end to an elected thread.
    ///
    /// See the example of [`EpilogueEnd`].
    #[isa::forceinline]
    pub fn by<Ro: Role, Cl: ClusterShape>(self, _one: &Elected<Ro, Cl>) -> EpilogueLoads<N, F> {
        EpilogueLoads {
            barrier: self.barrier,
            phase: 0,
            passes: F::FIRST_PASSES,
            name: PhantomData,
        }
    }
}

/// The epilogue's end, which waits.
///
/// Waits for its step's arrivals, or with [`EpilogueFirst`] for those of the previous step. (PTX
/// `mbarrier.try_wait.parity`; CUTLASS `OrderedSequenceBarrier::wait`, in the group that never arrives.)
///
/// ```
/// # use warpipe_pipeline::{barrier::*, prelude::*, cta::Elected};
/// # names! { First = "main loop first" } roles! { Load = 1 x 40 registers }
/// # type One = Elected<Load, Cluster<1, 1>>;
/// fn per_tile(mut order: EpilogueLoads<First>, tiles: u32) {
///     for _tile in 0..tiles {
///         order.wait_and_step();
///         // The loads of C follow.
///     }
/// }
/// ```
#[must_use]
pub struct EpilogueLoads<N, F = MainLoopFirst> {
    barrier: u32,
    phase: u32,
    /// Only with [`EpilogueFirst`]: whether the first step is still to come.
    passes: bool,
    name: PhantomData<(N, F, *const ())>,
}
impl<N: Name, F: Start> EpilogueLoads<N, F> {
    /// Waits until the main loop's end has arrived for this step (with [`EpilogueFirst`]: for the previous step,
    /// if there is one).
    ///
    /// The phase advances with the wait, not with the step, so that dropping the token can't make the next wait
    /// see this step's arrival again. (PTX `mbarrier.try_wait.parity`, in a loop; CUTLASS
    /// `OrderedSequenceBarrier::wait`.) See the example of [`Passed`].
    #[device]
    pub fn wait(&mut self) -> Passed<'_> {
        if F::FIRST_PASSES && self.passes {
            self.passes = false;
            return Passed { end: PhantomData };
        }
        // SAFETY: the plan initialised the barrier, and the phase alternates with each step.
        unsafe { isa::mbarrier::wait_parity(self.barrier, self.phase) };
        self.phase ^= 1;
        Passed { end: PhantomData }
    }
    /// Waits for this step's arrivals, and steps.
    ///
    /// It is [`wait`](Self::wait) and [`step`](Passed::step). (PTX `mbarrier.try_wait.parity`, in a loop; CUTLASS
    /// `OrderedSequenceBarrier::wait`, `advance`.) See the example of [`EpilogueLoads`].
    #[device]
    pub fn wait_and_step(&mut self) {
        self.wait().step();
    }
}

/// The token of a step whose main-loop loads are issued. While a thread holds it, the end can't wait again.
///
/// ```
/// # use warpipe_pipeline::{barrier::*, prelude::*, cta::Elected};
/// # names! { First = "main loop first" } roles! { Load = 1 x 40 registers }
/// # type One = Elected<Load, Cluster<1, 1>>;
/// fn once(mut order: EpilogueLoads<First>) {
///     let passed: Passed<'_> = order.wait();
///     passed.step();
/// }
/// ```
#[must_use = "a wait is followed by `step()`: the next one is the next tile's"]
pub struct Passed<'e> {
    end: PhantomData<&'e mut ()>,
}
impl Passed<'_> {
    /// Advances to the next step.
    ///
    /// (CUTLASS `PipelineState::operator++`.) See the example of [`Passed`].
    #[isa::forceinline]
    pub fn step(self) {}
}
