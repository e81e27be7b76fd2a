//! The shared-memory plan: a type that lists what a CTA keeps in shared memory.
//!
//! Invariant: nobody uses a ring or a barrier before its mbarriers are initialised and visible to every proxy
//! and every peer of the cluster. [`Cta::init`] consumes the CTA's token, initialises the plan once and only
//! then returns the ends of the rings and barriers.
//!
//! The compiler computes offsets, alignment and the total. The plan is part of the token's type, so the launch
//! takes its dynamic shared memory from there ([`SmemPlan::BYTES`]).

use crate::cta::ClusterShape;
use crate::cta::text::Text;
use crate::cta::{Cta, Ready, Roles};
use crate::grid::BeforeWait;
use core::marker::PhantomData;
use isa::device;
use isa::kernel::RegionFacts;

/// The shared memory that one CTA can use on sm_90: 227 KiB.
pub const SMEM_LIMIT: usize = 227 * 1024;
/// The alignment of the plan's first region and of each region with tiles, in bytes.
pub const SMEM_ALIGN: usize = 1024;

/// Where a region lies: the plan gives it memory and named barriers.
///
/// (CUTLASS: a pointer into `SharedStorage`.)
///
/// ```
/// use warpipe_pipeline::cta::Place;
/// # let place = Place { base: 1024, barrier: 3 };
/// let first_mbarrier = place.base;
/// let first_named_barrier = place.barrier;
/// # assert_eq!((first_mbarrier, first_named_barrier), (1024, 3));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The shared address of the region's first byte.
    pub base: u32,
    /// The id of its first named barrier.
    pub barrier: u32,
}

/// Something that a CTA's threads share: a ring, a barrier, a store buffer.
///
/// (CUTLASS: a member of `SharedStorage`.)
///
/// ```
/// use warpipe_pipeline::cta::{Place, Region};
/// /// Four words that all threads may use. The kernel orders the accesses itself.
/// struct Scratch;
/// // SAFETY: 16 bytes, no barrier, nothing to prepare.
/// unsafe impl Region for Scratch {
///     const BYTES: usize = 16;
///     const ALIGN: usize = 16;
///     type Ends = u32;
///     unsafe fn init(_place: Place) {}
///     unsafe fn ends(place: Place) -> u32 { place.base }
/// }
/// # assert_eq!(warpipe_pipeline::cta::SmemPlan::<(Scratch,)>::BYTES, 16);
/// ```
///
/// # Safety
/// `init` and `ends` must use no more than `BYTES` bytes and `BARRIERS` named barriers of their place.
/// `ends` must return tokens whose protocol `init` has prepared. `init` must write nothing but mbarriers, with
/// `mbarrier.init`, because the fence that follows it (`fence.mbarrier_init`) publishes nothing else.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be part of a shared-memory plan",
    label = "not a region",
    note = "a plan is made of rings, barriers and buffers: `Ring`, `StoreBuffers`, `LoadOrderBarrier`, `OrderedSequence`, `NamedBarrier`, `Mailbox`; memory of your own is `pipeline::raw::Memory`"
)]
pub unsafe trait Region {
    /// Size in bytes.
    const BYTES: usize;
    /// Alignment in bytes, a power of two, at most [`SMEM_ALIGN`].
    const ALIGN: usize;
    /// The number of named barriers that it uses.
    const BARRIERS: u32 = 0;
    /// Its name in reports, empty for an anonymous region. Two regions of a plan can't share a name.
    const NAME: &'static str = "";
    /// What it consists of, as `warpipe inspect` prints it. Without this, a region is plain memory.
    const FACTS: RegionFacts = RegionFacts::of("memory", &[]);
    /// What a kernel gets: the ends of a ring, of a barrier, a buffer.
    type Ends;
    /// Initialises the region's mbarriers, in one thread of the CTA.
    ///
    /// (PTX `mbarrier.init`; CUTLASS `ClusterBarrier::init`.) See the example of [`Region`].
    ///
    /// # Safety
    /// `place` is the region's own and its memory is aligned. It is called once, before any `ends`.
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn init(place: Place);
    /// Returns this thread's ends of the region.
    ///
    /// See the example of [`Region`].
    ///
    /// # Safety
    /// `init` has run on `place` and is visible to this thread. It is called once per thread.
    unsafe fn ends(place: Place) -> Self::Ends;
}

// For a generic plan that leaves a region out.
// SAFETY: no memory and no barrier.
unsafe impl Region for () {
    const BYTES: usize = 0;
    const ALIGN: usize = 1;
    type Ends = ();
    #[isa::forceinline]
    unsafe fn init(_place: Place) {}
    #[isa::forceinline]
    unsafe fn ends(_place: Place) {}
}

/// A condition known at compile time, as a type: [`Is<true>`](Is) or `Is<false>`.
pub trait Condition: 'static {
    /// Whether it holds.
    const HOLDS: bool;
}

/// `true` or `false` as a type.
///
/// Generic code needs it because it can't pass an associated constant on as a const parameter.
#[derive(Clone, Copy, Debug)]
pub enum Is<const HOLDS: bool> {}

impl<const HOLDS: bool> Condition for Is<HOLDS> {
    const HOLDS: bool = HOLDS;
}

/// The region `R` if the condition `C` holds, and no region otherwise.
///
/// Its ends are an `Option`, which costs no instruction. (CUTLASS: a conditional member of `SharedStorage`.)
///
/// ```
/// # use warpipe_pipeline::{cta::{Is, When}, barrier::LoadOrderBarrier, prelude::*};
/// # names! { Main = "main", First = "first" }
/// type Order<N> = LoadOrderBarrier<N>;
/// type Plan<const HAS_C: bool> = SmemPlan<(Order<Main>, When<Is<HAS_C>, Order<First>>)>;
/// assert_eq!((Plan::<true>::BYTES, Plan::<false>::BYTES), (16, 8));
/// ```
pub struct When<C, R>(PhantomData<(C, R)>);

// SAFETY: it forwards to `R` or uses nothing.
unsafe impl<C: Condition, R: Region> Region for When<C, R> {
    const BYTES: usize = if C::HOLDS { R::BYTES } else { 0 };
    const ALIGN: usize = if C::HOLDS { R::ALIGN } else { 1 };
    const BARRIERS: u32 = if C::HOLDS { R::BARRIERS } else { 0 };
    const NAME: &'static str = R::NAME;
    const FACTS: RegionFacts = if C::HOLDS { R::FACTS } else { RegionFacts::of("none", &[]) };
    type Ends = Option<R::Ends>;
    #[isa::forceinline]
    unsafe fn init(place: Place) {
        if C::HOLDS {
            // SAFETY: the caller's contract is `R`'s.
            unsafe { R::init(place) }
        }
    }
    #[isa::forceinline]
    unsafe fn ends(place: Place) -> Self::Ends {
        // SAFETY: the caller's contract is `R`'s.
        if C::HOLDS { Some(unsafe { R::ends(place) }) } else { None }
    }
}

/// A list of regions: a tuple of at most twelve, or the empty tuple.
///
/// (CUTLASS `SharedStorage`.)
///
/// ```
/// # use warpipe_pipeline::{barrier::LoadOrderBarrier, prelude::*, cta::Regions};
/// # names! { A = "a", B = "b" }
/// fn bytes<R: Regions>() -> u32 { SmemPlan::<R>::BYTES }
/// assert_eq!(bytes::<(LoadOrderBarrier<A>, LoadOrderBarrier<B>)>(), 16);
/// ```
///
/// # Safety
/// As for [`Region`], and the regions must not overlap.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a list of what a CTA keeps in shared memory",
    label = "not a tuple of regions",
    note = "a plan is a tuple of one to twelve rings, barriers and buffers: `SmemPlan<(Ring<..>, StoreBuffers<..>)>`; one alone is `SmemPlan<(Ring<..>,)>`"
)]
pub unsafe trait Regions {
    /// The size and alignment of each region, in order, in bytes.
    const SIZES: &'static [(usize, usize)];
    /// The number of named barriers that each region uses.
    const BARRIERS: &'static [u32];
    /// The regions' names.
    const NAMES: &'static [&'static str];
    /// What each region consists of, and where it lies.
    const FACTS: &'static [RegionFacts] = &[];
    /// The ends of all regions, in order.
    type Ends;
    /// Initialises the mbarriers of every region.
    ///
    /// (PTX `mbarrier.init`; CUTLASS `ClusterBarrier::init`.) See the example of [`Regions`].
    ///
    /// # Safety
    /// As [`Region::init`].
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn init(place: Place);
    /// Returns this thread's ends of every region.
    ///
    /// See the example of [`Regions`].
    ///
    /// # Safety
    /// As [`Region::ends`].
    unsafe fn ends(place: Place) -> Self::Ends;
}

const fn align_up(offset: usize, align: usize) -> usize {
    offset.div_ceil(align) * align
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

/// Offset of region `index` among regions of these sizes and alignments. For the index past the last region
/// it is the total.
const fn offset(sizes: &[(usize, usize)], index: usize) -> usize {
    let mut end = 0;
    let mut i = 0;
    while i < index {
        end = align_up(end, sizes[i].1) + sizes[i].0;
        i += 1;
    }
    if index < sizes.len() { align_up(end, sizes[index].1) } else { end }
}

/// The number of named barriers of the regions before `index`.
const fn barriers_before(barriers: &[u32], index: usize) -> u32 {
    let (mut sum, mut i) = (0, 0);
    while i < index {
        sum += barriers[i];
        i += 1;
    }
    sum
}

impl Place {
    /// The place of region `INDEX` of the list `R` that starts here.
    #[isa::forceinline]
    fn of<R: Regions, const INDEX: usize>(self) -> Self {
        let base = self.base + const { offset(R::SIZES, INDEX) as u32 };
        let bytes = const { R::SIZES[INDEX].0 as u32 };
        Self {
            // The model then knows an access that is made through this region and leaves it.
            base: isa::debug::region(const { R::NAMES[INDEX] }, base, bytes),
            barrier: self.barrier + const { barriers_before(R::BARRIERS, INDEX) },
        }
    }
}

/// The first name that occurs twice; those without a name are anonymous.
const fn repeated<'a>(names: &[&'a str]) -> Option<&'a str> {
    let mut i = 0;
    while i < names.len() {
        let mut j = i + 1;
        while j < names.len() {
            if !names[i].is_empty() && same(names[i], names[j]) {
                return Some(names[i]);
            }
            j += 1;
        }
        i += 1;
    }
    None
}

macro_rules! tuple_of_regions {
    ($($region:ident $index:tt),+) => {
        // SAFETY: each region gets its own aligned range from `offset`.
        unsafe impl<$($region: Region),+> Regions for ($($region,)+) {
            const SIZES: &'static [(usize, usize)] = &[$(($region::BYTES, $region::ALIGN)),+];
            const BARRIERS: &'static [u32] = &[$($region::BARRIERS),+];
            const NAMES: &'static [&'static str] = &[$($region::NAME),+];
            const FACTS: &'static [RegionFacts] = &[$(RegionFacts {
                name: $region::NAME,
                offset: offset(Self::SIZES, $index) as u32,
                bytes: $region::BYTES as u32,
                first_barrier: barriers_before(Self::BARRIERS, $index),
                ..$region::FACTS
            }),+];
            type Ends = ($($region::Ends,)+);
            #[isa::forceinline]
            unsafe fn init(place: Place) {
                // SAFETY: the caller's contract; places are disjoint.
                $(unsafe { $region::init(place.of::<Self, $index>()) };)+
            }
            #[isa::forceinline]
            unsafe fn ends(place: Place) -> Self::Ends {
                // SAFETY: the caller's contract; places are disjoint.
                ($(unsafe { $region::ends(place.of::<Self, $index>()) },)+)
            }
        }
    };
}

// SAFETY: the list has no region.
unsafe impl Regions for () {
    const SIZES: &'static [(usize, usize)] = &[];
    const BARRIERS: &'static [u32] = &[];
    const NAMES: &'static [&'static str] = &[];
    const FACTS: &'static [RegionFacts] = &[];
    type Ends = ();
    #[isa::forceinline]
    unsafe fn init(_place: Place) {}
    #[isa::forceinline]
    unsafe fn ends(_place: Place) {}
}

tuple_of_regions!(A 0);
tuple_of_regions!(A 0, B 1);
tuple_of_regions!(A 0, B 1, C 2);
tuple_of_regions!(A 0, B 1, C 2, D 3);
tuple_of_regions!(A 0, B 1, C 2, D 3, E 4);
tuple_of_regions!(A 0, B 1, C 2, D 3, E 4, F 5);
tuple_of_regions!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuple_of_regions!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
tuple_of_regions!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8);
tuple_of_regions!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9);
tuple_of_regions!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10);
tuple_of_regions!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11);

/// The plan of a CTA's shared memory: a tuple of [`Region`]s.
///
/// A plan over 227 KiB, or one whose regions share a name, does not compile.
///
/// The launch gets the plan's bytes as dynamic shared memory. (CUTLASS `SharedStorage`.)
///
/// ```
/// # use half::bf16;
/// # use warpipe_pipeline::prelude::*;
/// # names! { Main = "main" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Panel = Tile<bf16, 128, 64>; type Alone = Cluster<1, 1>;
/// type Plan = SmemPlan<(
///     Ring<4, (Panel, Panel), Tma, Mma<Math>, Main, Alone>,
///     StoreBuffers<bf16, 2, Math>,
/// )>;
/// assert_eq!(Plan::BYTES, 4 * (2 * 128 * 128 + 16) + 960 + 4 * 64 * 128); // buffers start at 1 KiB
/// assert_eq!(Plan::first_barrier::<(Load, Math)>(), 4);
///
/// fn kernel(cta: Cta<(Load, Math), Alone, Plan>) {
///     let (cta, (_ring, _stores)) = cta.init();
///     cta.specialize(|_load| {}, |_math| {});
/// }
/// ```
pub struct SmemPlan<R>(PhantomData<R>);

impl<R: Regions> SmemPlan<R> {
    /// What the compiler says of a plan with a name twice.
    const REPEATED: Text = match repeated(R::NAMES) {
        Some(name) => {
            Text::new("two regions of a shared-memory plan have the name `").text(name).text(
                "`: give each a name of its own (`names!`), so that their ends can't be mixed up",
            )
        }
        None => Text::new(""),
    };

    /// What the compiler says of a plan that does not fit.
    const OVER: Text = {
        let mut text = Text::new("the shared-memory plan takes ")
            .number(offset(R::SIZES, R::SIZES.len()))
            .text(" bytes, and a CTA has ")
            .number(SMEM_LIMIT)
            .text(" (227 KiB): take fewer stages or smaller tiles; its regions take");
        let mut i = 0;
        while i < R::SIZES.len() {
            let name = if R::NAMES[i].is_empty() { "(no name)" } else { R::NAMES[i] };
            let end = if i + 1 < R::SIZES.len() { "," } else { "" };
            text = text.text(" ").number(R::SIZES[i].0).text(" ").text(name).text(end);
            i += 1;
        }
        text
    };

    /// The dynamic shared memory of the launch, in bytes.
    pub const BYTES: u32 = {
        let bytes = offset(R::SIZES, R::SIZES.len());
        assert!(bytes <= SMEM_LIMIT, "{}", Self::OVER.as_str());
        assert!(repeated(R::NAMES).is_none(), "{}", Self::REPEATED.as_str());
        bytes as u32
    };

    /// The id of the plan's first named barrier, in a CTA of the roles `Ro`.
    ///
    /// A CTA has 16. Barrier 0 is the CTA's, the next ones belong to the warp groups, one each, and the plan
    /// has the rest. A plan that needs more does not compile. (CUTLASS
    /// `ReservedNamedBarriers::FirstUserBarrier`.) See the example of [`SmemPlan`].
    #[must_use]
    pub const fn first_barrier<Ro: Roles>() -> u32 {
        let first = 1 + Ro::GROUPS as u32;
        assert!(
            first + barriers_before(R::BARRIERS, R::BARRIERS.len()) <= 16,
            "a CTA has 16 named barriers: one is the CTA's, each warp group has one, and the plan \
             needs more than are left"
        );
        first
    }
}

impl<R: Roles, Cl: ClusterShape, P: Regions> Cta<R, Cl, SmemPlan<P>> {
    /// Initialises every mbarrier of the CTA's plan, makes them visible, and returns the plan's ends.
    ///
    /// It lets dependent grids launch ([`launch_dependents`](Self::launch_dependents)), runs the
    /// [`prologue`](Self::prologue) and waits for the primary grids ([`BeforeWait::wait`]).
    ///
    /// Waits for all threads of the CTA (in a cluster: of every CTA) and for the end of the primary grids.
    /// Signals the launch of dependent grids. (PTX `griddepcontrol.launch_dependents`, the instructions of
    /// [`prologue`](Self::prologue), `griddepcontrol.wait`; CUTLASS `launch_dependent_grids`, the pipelines'
    /// constructors, `cluster_arrive_relaxed`, `cluster_wait`, `wait_on_dependent_grids`.) See the example of
    /// [`SmemPlan`].
    #[device]
    pub fn init(self) -> (Ready<R, Cl>, P::Ends) {
        // First of all: a dependent grid can do nothing early but its prologue, and then it waits.
        self.launch_dependents();
        let (early, ends) = self.prologue();
        (early.wait(), ends)
    }

    /// Initialises every mbarrier of the CTA's plan and makes them visible, but does not wait for the primary
    /// grids.
    ///
    /// One thread initialises the mbarriers and fences them, for peers and for TMA. Then the CTA synchronises
    /// (in a cluster: every CTA of it). The method consumes the token, and a kernel gets only one, so that no
    /// plan is initialised twice.
    ///
    /// In a dependent launch (`#[kernel(dependent = true)]`) the prologue overlaps the primary grid. The ends
    /// accept no token until [`BeforeWait::wait`], because what a thread does with them may read what the primary
    /// grid writes.
    ///
    /// Waits for all threads of the CTA (in a cluster: of every CTA). (PTX `mbarrier.init`,
    /// `fence.mbarrier_init.release.cluster`, `fence.proxy.async.shared::cta`, then `barrier.cta.sync`, or
    /// `barrier.cluster.arrive.relaxed` and `barrier.cluster.wait.acquire`; CUTLASS: the pipelines' constructors,
    /// `fence_barrier_init`, `cluster_arrive_relaxed`, `cluster_wait`.) See the example of [`BeforeWait`].
    #[device]
    pub fn prologue(self) -> (BeforeWait<Ready<R, Cl>>, P::Ends) {
        // A plan of hardware barriers alone, or of nothing, has no memory.
        let has_memory = const { SmemPlan::<P>::BYTES > 0 };
        let base = if has_memory { isa::shared::dynamic_base() } else { 0 };
        let place = Place { base, barrier: const { SmemPlan::<P>::first_barrier::<R>() } };
        if has_memory && isa::thread::thread_idx_x() == 0 {
            // SAFETY: the plan owns the CTA's dynamic shared memory from its base, and the launch gave it
            // BYTES bytes. There is one token per thread, so this runs once.
            unsafe {
                P::init(place);
                isa::fence::mbarrier_init_release_cluster();
                isa::fence::proxy_async_shared_cta();
            }
        }
        let cta = self.sync();
        // SAFETY: the mbarriers are initialised above and visible after `sync`, which spent the CTA's token.
        (BeforeWait::of(cta), unsafe { P::ends(place) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_honour_sizes_and_alignment() {
        let sizes = [(10, 1), (8, 8), (2048, 1024), (16, 8)];
        let at: [usize; 5] = core::array::from_fn(|i| offset(&sizes, i));
        assert_eq!(at, [0, 16, 1024, 3072, 3088]);
    }

    #[test]
    fn names_are_compared_and_anonymous_ones_are_not() {
        assert_eq!(repeated(&["", "", "main", "c"]), None);
        assert_eq!(repeated(&["c", "main", "", "main"]), Some("main"));
    }
}
