//! The shared-memory plan: a type that lists what a CTA keeps in shared memory.
//!
//! Offsets, alignment and the total are computed by the compiler; the plan is part of the type of the
//! CTA's token, from which the byte count of the launch comes ([`SmemPlan::BYTES`]). The token
//! initialises its plan once ([`Cta::init`]), and only then are the ends of its rings and barriers handed
//! out, so nothing can be used before its mbarriers are initialised and visible to every proxy and peer.

use crate::cta::ClusterShape;
use crate::cta::{Cta, Ready, Roles};
use crate::grid::BeforeWait;
use core::marker::PhantomData;
use isa::device;

/// Shared memory that one CTA can use on sm_90: 227 KiB.
pub const SMEM_LIMIT: usize = 227 * 1024;
/// Alignment of the first region, and of any region with tiles.
pub const SMEM_ALIGN: usize = 1024;

/// What a plan gives a region: memory, and hardware barriers.
///
/// (CUTLASS none: a pointer into `SharedStorage`.)
///
/// ```
/// use pipeline::cta::Place;
/// # let place = Place { base: 1024, barrier: 3 };
/// let first_mbarrier = place.base;
/// let first_named_barrier = place.barrier;
/// # assert_eq!((first_mbarrier, first_named_barrier), (1024, 3));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Shared address of the region's first byte.
    pub base: u32,
    /// Id of its first hardware barrier.
    pub barrier: u32,
}

/// Something that a CTA's threads share: a ring, a barrier, a store buffer.
///
/// (CUTLASS a member of `SharedStorage`.)
///
/// ```
/// use pipeline::cta::{Place, Region};
/// /// Four words that all threads may use; who writes when is for others to order.
/// struct Scratch;
/// // SAFETY: 16 bytes, no barrier, nothing to prepare.
/// unsafe impl Region for Scratch {
///     const BYTES: usize = 16;
///     const ALIGN: usize = 16;
///     type Ends = u32;
///     unsafe fn init(_place: Place) {}
///     unsafe fn ends(place: Place) -> u32 { place.base }
/// }
/// # assert_eq!(pipeline::cta::SmemPlan::<(Scratch,)>::BYTES, 16);
/// ```
///
/// # Safety
/// `init` and `ends` must use no more than `BYTES` bytes and `BARRIERS` hardware barriers of their
/// place, and `ends` must hand out tokens whose protocol `init` has prepared. `init` writes nothing but
/// mbarriers, by `mbarrier.init`: the fence behind it publishes nothing else.
pub unsafe trait Region {
    /// Size in bytes.
    const BYTES: usize;
    /// Alignment in bytes, a power of two, at most [`SMEM_ALIGN`].
    const ALIGN: usize;
    /// Hardware (named) barriers that it uses.
    const BARRIERS: u32 = 0;
    /// Name in reports; empty for anonymous regions. Two regions of a plan can't share one.
    const NAME: &'static str = "";
    /// What a kernel gets: the ends of a ring, of a barrier, a buffer.
    type Ends;
    /// Initialises the mbarriers of the region. Runs in one thread of the CTA.
    ///
    /// (PTX `mbarrier.init`, of the region's mbarriers; CUTLASS `ClusterBarrier::init`.) See the example of
    /// [`Region`].
    ///
    /// # Safety
    /// `place` is the region's own, its memory aligned; called once, before any `ends`.
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn init(place: Place);
    /// Makes this thread's handles.
    ///
    /// See the example of [`Region`].
    ///
    /// # Safety
    /// `init` has run on `place` and is visible to this thread; called once per thread.
    unsafe fn ends(place: Place) -> Self::Ends;
}

// Where a generic plan has no region.
// SAFETY: no memory and no barrier.
unsafe impl Region for () {
    const BYTES: usize = 0;
    const ALIGN: usize = 1;
    type Ends = ();
    #[inline(always)]
    unsafe fn init(_place: Place) {}
    #[inline(always)]
    unsafe fn ends(_place: Place) {}
}

/// A condition that a type states: [`Is<true>`](Is) or `Is<false>`.
pub trait Condition: 'static {
    /// Whether it holds.
    const HOLDS: bool;
}

/// `true` or `false` as a type, for generic code, which can't pass an associated constant on.
#[derive(Clone, Copy, Debug)]
pub enum Is<const HOLDS: bool> {}

impl<const HOLDS: bool> Condition for Is<HOLDS> {
    const HOLDS: bool = HOLDS;
}

/// The region `R` where the condition `C` holds, and no region otherwise. Its ends are an `Option`, which
/// costs no instruction. (CUTLASS: a conditional member of `SharedStorage`.)
///
/// ```
/// # use pipeline::{cta::{Is, When}, barrier::LoadOrderBarrier, prelude::*};
/// # names! { Main = "main", First = "first" }
/// type Order<N> = LoadOrderBarrier<N>;
/// type Plan<const HAS_C: bool> = SmemPlan<(Order<Main>, When<Is<HAS_C>, Order<First>>)>;
/// assert_eq!((Plan::<true>::BYTES, Plan::<false>::BYTES), (16, 8));
/// ```
pub struct When<C, R>(PhantomData<(C, R)>);

// SAFETY: forwards to `R`, or uses nothing.
unsafe impl<C: Condition, R: Region> Region for When<C, R> {
    const BYTES: usize = if C::HOLDS { R::BYTES } else { 0 };
    const ALIGN: usize = if C::HOLDS { R::ALIGN } else { 1 };
    const BARRIERS: u32 = if C::HOLDS { R::BARRIERS } else { 0 };
    const NAME: &'static str = R::NAME;
    type Ends = Option<R::Ends>;
    #[inline(always)]
    unsafe fn init(place: Place) {
        if C::HOLDS {
            // SAFETY: the caller's contract is `R`'s.
            unsafe { R::init(place) }
        }
    }
    #[inline(always)]
    unsafe fn ends(place: Place) -> Self::Ends {
        // SAFETY: the caller's contract is `R`'s.
        if C::HOLDS { Some(unsafe { R::ends(place) }) } else { None }
    }
}

/// A list of regions: a tuple of up to twelve, or of none.
///
/// CUTLASS: `SharedStorage`.
///
/// ```
/// # use pipeline::{barrier::LoadOrderBarrier, prelude::*, cta::Regions};
/// # names! { A = "a", B = "b" }
/// fn bytes<R: Regions>() -> u32 { SmemPlan::<R>::BYTES }
/// assert_eq!(bytes::<(LoadOrderBarrier<A>, LoadOrderBarrier<B>)>(), 16);
/// ```
///
/// # Safety
/// As for [`Region`]: offsets must not overlap.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a list of what a CTA keeps in shared memory",
    label = "not a tuple of regions",
    note = "a plan is a tuple of one to twelve rings, barriers and buffers: `SmemPlan<(Ring<..>, StoreBuffers<..>)>`; one alone is `SmemPlan<(Ring<..>,)>`"
)]
pub unsafe trait Regions {
    /// Size and alignment of each region, in order.
    const SIZES: &'static [(usize, usize)];
    /// How many hardware barriers each uses.
    const BARRIERS: &'static [u32];
    /// Their names.
    const NAMES: &'static [&'static str];
    /// The ends of all regions, in order.
    type Ends;
    /// Initialises every region.
    ///
    /// (PTX `mbarrier.init`, of all mbarriers; CUTLASS `ClusterBarrier::init`.) See the example of
    /// [`Regions`].
    ///
    /// # Safety
    /// As [`Region::init`].
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn init(place: Place);
    /// Hands out the ends of every region.
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

/// Offset of region `index` among regions of the given sizes and alignments; past the last one it
/// is the total.
const fn offset(sizes: &[(usize, usize)], index: usize) -> usize {
    let mut end = 0;
    let mut i = 0;
    while i < index {
        end = align_up(end, sizes[i].1) + sizes[i].0;
        i += 1;
    }
    if index < sizes.len() { align_up(end, sizes[index].1) } else { end }
}

/// Hardware barriers of the regions before `index`.
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
    #[inline(always)]
    fn of<R: Regions, const INDEX: usize>(self) -> Self {
        Self {
            base: self.base + const { offset(R::SIZES, INDEX) as u32 },
            barrier: self.barrier + const { barriers_before(R::BARRIERS, INDEX) },
        }
    }
}

const fn names_differ(names: &[&str]) -> bool {
    let mut i = 0;
    while i < names.len() {
        let mut j = i + 1;
        while j < names.len() {
            if !names[i].is_empty() && same(names[i], names[j]) {
                return false;
            }
            j += 1;
        }
        i += 1;
    }
    true
}

macro_rules! tuple_of_regions {
    ($($region:ident $index:tt),+) => {
        // SAFETY: each region gets its own aligned range, by `offset`.
        unsafe impl<$($region: Region),+> Regions for ($($region,)+) {
            const SIZES: &'static [(usize, usize)] = &[$(($region::BYTES, $region::ALIGN)),+];
            const BARRIERS: &'static [u32] = &[$($region::BARRIERS),+];
            const NAMES: &'static [&'static str] = &[$($region::NAME),+];
            type Ends = ($($region::Ends,)+);
            #[inline(always)]
            unsafe fn init(place: Place) {
                // SAFETY: the caller's contract; places are disjoint.
                $(unsafe { $region::init(place.of::<Self, $index>()) };)+
            }
            #[inline(always)]
            unsafe fn ends(place: Place) -> Self::Ends {
                // SAFETY: the caller's contract; places are disjoint.
                ($(unsafe { $region::ends(place.of::<Self, $index>()) },)+)
            }
        }
    };
}

// SAFETY: there is no region.
unsafe impl Regions for () {
    const SIZES: &'static [(usize, usize)] = &[];
    const BARRIERS: &'static [u32] = &[];
    const NAMES: &'static [&'static str] = &[];
    type Ends = ();
    #[inline(always)]
    unsafe fn init(_place: Place) {}
    #[inline(always)]
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
tuple_of_regions!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, Cl 10);
tuple_of_regions!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, Cl 10, L 11);

/// The plan of a CTA's shared memory: a tuple of [`Region`]s.
///
/// A plan over 227 KiB, or one whose regions share a name, does not compile.
///
/// (PTX the dynamic shared memory of the launch; CUTLASS `SharedStorage`.)
///
/// ```
/// # use half::bf16;
/// # use pipeline::prelude::*;
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
    /// Dynamic shared memory of the launch, in bytes.
    pub const BYTES: u32 = {
        let bytes = offset(R::SIZES, R::SIZES.len());
        assert!(
            bytes <= SMEM_LIMIT,
            "the shared-memory plan is over the 227 KiB of a CTA: take fewer stages or smaller tiles"
        );
        assert!(names_differ(R::NAMES), "two regions of a shared-memory plan have the same name");
        bytes as u32
    };

    /// Id of the plan's first hardware barrier in a CTA of the roles `Ro`: 0 is the CTA's, the next
    /// ones the warp groups'. A plan that wants more than are left does not compile.
    ///
    /// CUTLASS: `ReservedNamedBarriers::FirstUserBarrier`. See the example of [`SmemPlan`].
    #[must_use]
    pub const fn first_barrier<Ro: Roles>() -> u32 {
        let first = 1 + Ro::GROUPS as u32;
        assert!(
            first + barriers_before(R::BARRIERS, R::BARRIERS.len()) <= 16,
            "a CTA has 16 hardware barriers: one is the CTA's, one each warp group's, and the \
             plan's are more than the rest"
        );
        first
    }
}

impl<R: Roles, Cl: ClusterShape, P: Regions> Cta<R, Cl, SmemPlan<P>> {
    /// Initialises every mbarrier of the CTA's plan, makes them visible, and hands out the ends: the
    /// [`prologue`](Self::prologue), and at once the wait that ends it.
    ///
    /// Waits for all threads of the CTA, or of the cluster, and for the grids that this one depends on.
    /// Signals that dependents may start, and those threads. (PTX `griddepcontrol.launch_dependents`, that of
    /// [`prologue`](Self::prologue), `griddepcontrol.wait`; CUTLASS `launch_dependent_grids`, construction of
    /// the pipelines, `cluster_arrive_relaxed`, `cluster_wait`, `wait_on_dependent_grids`.) See the example
    /// of [`SmemPlan`].
    #[device]
    pub fn init(self) -> (Ready<R, Cl>, P::Ends) {
        // At once: the dependents' own prologue, and then their wait, is all that can come early.
        self.launch_dependents();
        let (early, ends) = self.prologue();
        (early.wait(), ends)
    }

    /// Initialises every mbarrier of the CTA's plan, makes them visible, and hands out the ends.
    ///
    /// One thread initialises and fences, for peers and for TMA; then the CTA (or, in a cluster,
    /// every CTA of it) meets. The token is consumed by value, and a kernel gets only one: a plan
    /// can't be initialised twice, nor another than the token's.
    ///
    /// In a launch that overlaps the kernel before it (`#[kernel(dependent = true)]`) all this happens
    /// while that kernel still runs. No end is of use to a thread before [`BeforeWait::wait`], for what
    /// comes then may read what that kernel wrote.
    ///
    /// Waits for all threads of the CTA, or of the cluster. Signals the same. (PTX `mbarrier.init`,
    /// `fence.mbarrier_init.release.cluster`, `fence.proxy.async.shared::cta`, then `barrier.cta.sync` or
    /// `barrier.cluster.arrive.relaxed` and `barrier.cluster.wait.acquire`; CUTLASS construction of the
    /// barriers, `fence_barrier_init`, `cluster_arrive_relaxed`, `cluster_wait`.) See the example of
    /// [`BeforeWait`].
    #[device]
    pub fn prologue(self) -> (BeforeWait<Ready<R, Cl>>, P::Ends) {
        // A plan of hardware barriers alone, or of nothing, has no memory.
        let has_memory = const { SmemPlan::<P>::BYTES > 0 };
        let base = if has_memory { isa::shared::dynamic_base() } else { 0 };
        let place = Place { base, barrier: const { SmemPlan::<P>::first_barrier::<R>() } };
        if has_memory && isa::thread::thread_idx_x() == 0 {
            // SAFETY: the plan owns the CTA's dynamic shared memory from its base, which the
            // launch made BYTES long; the token is there once per thread, so this runs once.
            unsafe {
                P::init(place);
                isa::fence::mbarrier_init_release_cluster();
                isa::fence::proxy_async_shared_cta();
            }
        }
        let cta = self.meet();
        // SAFETY: initialised above, and made visible by the meeting; the CTA's token was spent.
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
        assert!(names_differ(&["", "", "main", "c"]));
        assert!(!names_differ(&["main", "", "main"]));
    }
}
