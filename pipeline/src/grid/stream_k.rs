//! Stream-K partials: the partial sums of split tiles, whose K is split among CTAs (split-K, stream-K).
//!
//! Invariant: the CTA that began a tile adds the partials of the other CTAs in a fixed order, so that the rounding
//! is the same in every run. A CTA that did not begin a tile stores its partial in its own place in global memory
//! and signals a flag. Storing consumes the [`Accumulator`]. The CTA that began the tile waits for the flag, adds
//! the partial to its own sums (the stream-K fix-up) and resets the flag.
//!
//! ```text
//!   CTA 7:  … k = 12..31 of tile 3 ──► store: sums, then flag 7
//!   CTA 6:  k = 0..12 of tile 3 ──► reduce: wait for flag 7, reset the flag, load and add ──► epilogue
//! ```

use crate::cta::ClusterShape;
use crate::cta::{Role, WARPGROUP_THREADS, Warpgroup};
use crate::mma::{Accumulator, GROUP_ROWS};
use isa::device;
use isa::kernel::{AfterWait, ByValue, KernelArg, ParamMeta};
use isa::slice::{DeviceSliceMut, SliceAbi};
use isa::wgmma::{M64, Shape};

/// Four sums: what a thread stores or loads in one instruction.
type Quad = [f32; 4];

/// The workspace of stream-K: one partial tile per CTA of the grid, and three flags per warp group.
///
/// All flags must be 0 before the first launch, and every launch leaves them 0. The flag of a part lies behind its
/// sums. The host allocates [`Partials::bytes`]. (CUTLASS: the workspace of `PersistentTileSchedulerSm90StreamK`.)
///
/// ```
/// # use warpipe_pipeline::{grid::{Partials, PeerCtas}, prelude::*};
/// # roles! { Math = 2 x 232 registers }
/// # type Group = Warpgroup<Math, Cluster<1, 1>>;
/// /// CTA 0 adds the partial of CTA 1 and finishes the tile.
/// fn fix_up(all: &Partials<'_>, group: &Group, cta: u32, mut sum: Accumulator<128>) {
///     if cta == 1 {
///         all.store(group, 1, sum);
///         return;
///     }
///     all.reduce(group, PeerCtas::one(1), &mut sum);
///     let _sixteen_columns: [f32; 8] = sum.fragment(0);
/// }
/// assert_eq!(Partials::bytes(132, 2, 256), 132 * 2 * (64 * 256 * 4 + 3 * 128));
/// ```
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Partials<'a>(SliceAbi, core::marker::PhantomData<&'a mut [Quad]>);

/// Reconverges the warp after one of its threads has taken a branch. Without it, ptxas assumes a diverged warp from
/// here on and does not keep wgmma's operands in uniform registers.
#[device]
fn reconverge() {
    // SAFETY: the callers hold the group's token, which says that all lanes of the warp get here.
    unsafe { isa::warp::sync_warp(u32::MAX) }
}

/// The `N` columns of a warp group's sums that are stored or reduced: all columns, one of two halves, or one of up to three
/// blocks of rows.
///
/// Each part has a flag of its own. An [`Accumulator`] of another width does not fit. (CUTLASS's `fixup` moves
/// whole tiles.)
///
/// ```
/// # use warpipe_pipeline::{grid::{Part, Partials, PeerCtas}, prelude::*};
/// # roles! { Math = 2 x 232 registers }
/// # type Group = Warpgroup<Math, Cluster<1, 1>>;
/// /// CTA 0 adds the left half of CTA 1's partial while it still multiplies the right half.
/// fn fix_up_left(all: &Partials<'_>, group: &Group, cta: u32, mut left: Accumulator<128>) {
///     if cta == 1 {
///         all.store_part(group, 1, Part::left::<64>(), left);
///     } else {
///         all.reduce_part(group, PeerCtas::one(1), Part::left::<64>(), &mut left);
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Part<const N: usize> {
    /// The number of parts to the left of this one.
    before: u32,
    /// The first column of this part.
    first: usize,
    /// The columns of all parts.
    columns: usize,
}

impl<const N: usize> Part<N> {
    /// All `N` columns.
    ///
    /// See the example of [`Part`].
    #[isa::forceinline]
    #[must_use]
    pub const fn whole() -> Self {
        Self { before: 0, first: 0, columns: N }
    }

    /// The first `N` of `N` + `R` columns.
    ///
    /// See the example of [`Part`].
    #[isa::forceinline]
    #[must_use]
    pub const fn left<const R: usize>() -> Self {
        Self { before: 0, first: 0, columns: N + R }
    }

    /// The last `N` of `L` + `N` columns.
    ///
    /// See the example of [`Part`].
    #[isa::forceinline]
    #[must_use]
    pub const fn right<const L: usize>() -> Self {
        Self { before: 1, first: L, columns: L + N }
    }

    /// Block `block` of the `count` blocks of a [`TallAccumulator`](crate::mma::TallAccumulator), at most three. In the
    /// workspace they lie side by side.
    ///
    /// ```
    /// # use warpipe_pipeline::{grid::{Part, Partials}, mma::TallAccumulator, prelude::*};
    /// # roles! { Math = 2 x 232 registers }
    /// # type Group = Warpgroup<Math, Cluster<1, 1>>;
    /// /// Stores the sums of CTA 1, all three blocks.
    /// fn store(all: &Partials<'_>, group: &Group, sum: TallAccumulator<104, 3>) {
    ///     for (block, sum) in sum.blocks().into_iter().enumerate() {
    ///         all.store_part(group, 1, Part::block(block, 3), sum);
    ///     }
    /// }
    /// assert_eq!(Part::<104>::block(2, 3).first(), 208);
    /// ```
    #[isa::forceinline]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub const fn block(block: usize, count: usize) -> Self {
        #[cfg(not(target_arch = "nvptx64"))]
        assert!(
            block < count && count <= PARTS as usize,
            "a warp group's sums have up to three blocks, counted from 0"
        );
        Self { before: block as u32, first: block * N, columns: count * N }
    }

    /// The first column of this part.
    ///
    /// ```
    /// # use warpipe_pipeline::grid::Part;
    /// assert_eq!(Part::<64>::right::<128>().first(), 128);
    /// ```
    #[isa::forceinline]
    #[must_use]
    pub const fn first(&self) -> usize {
        self.first
    }
}

/// The CTAs whose partials complete a tile, in the order in which they are added: every `stride`th CTA downwards.
///
/// ```
/// # use warpipe_pipeline::grid::PeerCtas;
/// let peers = PeerCtas { first: 7, stride: 2, count: 3 };
/// assert!(peers.iter().eq([7, 5, 3]));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerCtas {
    /// The first CTA.
    pub first: u32,
    /// The distance from each CTA down to the next.
    pub stride: u32,
    /// The number of CTAs.
    pub count: u32,
}

impl PeerCtas {
    /// CTA `cta` alone. See the example of [`Part`].
    #[isa::forceinline]
    #[must_use]
    pub const fn one(cta: u32) -> Self {
        Self { first: cta, stride: 0, count: 1 }
    }

    /// CTA `index` of these. See the example of [`PeerCtas`].
    #[isa::forceinline]
    fn at(self, index: u32) -> u32 {
        self.first.wrapping_sub(index * self.stride)
    }

    /// All of them. See the example of [`PeerCtas`].
    pub fn iter(self) -> impl Iterator<Item = u32> {
        (0..self.count).map(move |index| self.at(index))
    }
}

/// The quads of a flag, which lies behind the sums of its part: 128 bytes, a cache line of its own.
const FLAG: u32 = 8;
/// The maximum number of parts of a warp group's sums.
const PARTS: u32 = 3;

/// Quads of small partials that a thread loads before it adds the first one: 64 registers.
const QUADS_IN_FLIGHT: usize = 16;

/// The quads of all sums of a warp group and of their flags.
const fn quads_of_group(columns: usize) -> u32 {
    (GROUP_ROWS * columns / 4) as u32 + PARTS * FLAG
}

/// The addresses of a thread's part of a partial tile.
struct Place {
    flag: *mut u32,
    /// The thread's first quad.
    first: *mut [u32; 4],
}

impl Partials<'_> {
    /// An empty workspace, for launches without split tiles.
    pub const EMPTY: Self = Self(SliceAbi { address: 0, elements: 0 }, core::marker::PhantomData);

    /// The size of the workspace in bytes, for `ctas` CTAs whose tiles have 64 rows of `columns` columns for
    /// each of `groups` warp groups.
    ///
    /// (CUTLASS `get_workspace_size`.) See the example of [`Partials`].
    #[must_use]
    pub const fn bytes(ctas: u64, groups: u64, columns: u64) -> u64 {
        ctas * groups * quads_of_group(columns as usize) as u64 * size_of::<Quad>() as u64
    }

    /// Partials of `columns` columns whose loads [`reduce_part`](Self::reduce_part) has in flight together.
    ///
    /// ```
    /// # use warpipe_pipeline::grid::Partials;
    /// assert_eq!((Partials::together(16), Partials::together(256)), (8, 1));
    /// ```
    #[must_use]
    pub const fn together(columns: usize) -> usize {
        let together = QUADS_IN_FLIGHT / (columns / 8);
        if together == 0 { 1 } else { together }
    }

    /// The addresses of this thread's part of the group's sums of CTA `cta`, and of the part's flag. If the
    /// workspace is too small, both are 0, so that the first access faults and ends the grid.
    #[device]
    fn place<const N: usize, R: Role, Cl>(
        &self,
        group: &Warpgroup<R, Cl>,
        cta: u32,
        part: Part<N>,
    ) -> Place
    where
        Cl: ClusterShape,
    {
        let quads = |columns| (GROUP_ROWS * columns / 4) as u32;
        let group_of_all = cta * R::GROUPS as u32 + group.index();
        let before = quads(part.first) + part.before * FLAG;
        let first = group_of_all * quads_of_group(part.columns) + before;
        let flag = first + quads(N);
        let inside = u64::from(flag) < self.0.elements;
        // Address 0 is never mapped. A `trap` would be another exit of the kernel, for which ptxas keeps the load
        // warp's coordinates in registers of all threads.
        let memory = if inside { self.0.address as *mut [u32; 4] } else { core::ptr::null_mut() };
        let at = |quad: u32| memory.wrapping_add(if inside { quad as usize } else { 0 });
        Place { flag: at(flag).cast(), first: at(first + group.thread()) }
    }

    /// Stores all of the group's sums as the partial of CTA `cta`: [`store_part`](Self::store_part) of the
    /// whole. See the example of [`Partials`].
    #[device]
    pub fn store<const N: usize, R: Role, Cl: ClusterShape>(
        &self,
        group: &Warpgroup<R, Cl>,
        cta: u32,
        sum: Accumulator<N>,
    ) where
        M64<N>: Shape,
    {
        self.store_part(group, cta, Part::whole(), sum);
    }

    /// Adds the whole partials of `peers` to the group's sums: [`reduce_part`](Self::reduce_part) of the
    /// whole. See the example of [`Partials`].
    #[device]
    pub fn reduce<const N: usize, R: Role, Cl: ClusterShape>(
        &self,
        group: &Warpgroup<R, Cl>,
        peers: PeerCtas,
        sum: &mut Accumulator<N>,
    ) where
        M64<N>: Shape,
    {
        self.reduce_part(group, peers, Part::whole(), sum);
    }

    /// Stores part of the group's sums as the partial of CTA `cta`, and signals the part's flag.
    ///
    /// A CTA stores each part once per launch. Waits for the group's other threads before it signals. (PTX
    /// `st.global.v4`, `barrier.cta.sync`, `st.release.gpu`; CUTLASS `BlockStripedReduce::store`,
    /// `GenericBarrier::arrive_inc`.) See the example of [`Part`].
    #[device]
    #[allow(clippy::needless_pass_by_value)] // It consumes the sums, which are incomplete.
    pub fn store_part<const N: usize, R: Role, Cl: ClusterShape>(
        &self,
        group: &Warpgroup<R, Cl>,
        cta: u32,
        part: Part<N>,
        sum: Accumulator<N>,
    ) where
        M64<N>: Shape,
    {
        let Place { flag, first } = self.place::<N, R, Cl>(group, cta, part);
        for i in 0..N / 8 {
            let at = first.wrapping_add(i * WARPGROUP_THREADS as usize);
            // SAFETY: inside the slice, which no other grid has. The place is this thread's until the flag is
            // signalled.
            unsafe { isa::global::st(at, sum.quad(i).map(f32::to_bits)) }
        }
        group.sync();
        if group.thread() == 0 {
            // SAFETY: all CTAs access the word with release, acquire and atomic operations only. The group has
            // synchronised, so the release covers the stores of all its threads.
            unsafe { isa::global::st_release_gpu_u32(flag, 1) }
        }
        reconverge();
    }

    /// Adds the partials of `peers` of this part to the group's sums, in their order, and resets the flags for the next
    /// launch.
    ///
    /// Waits for the flags and for the group's other threads. Each thread waits for a flag of its own, and the loads of
    /// small partials are in flight together: one after the other, each would take a round trip to the L2 cache. (PTX: a
    /// loop of `ld.acquire.gpu`, `barrier.cta.sync`, `@p ld.global.v4`; CUTLASS `GenericBarrier::wait_eq_reset`,
    /// `BlockStripedReduce::load_add`.) See the example of [`Part`].
    #[device]
    pub fn reduce_part<const N: usize, R: Role, Cl: ClusterShape>(
        &self,
        group: &Warpgroup<R, Cl>,
        peers: PeerCtas,
        part: Part<N>,
        sum: &mut Accumulator<N>,
    ) where
        M64<N>: Shape,
    {
        let mut own = group.thread();
        while own < peers.count {
            let Place { flag, .. } = self.place::<N, R, Cl>(group, peers.at(own), part);
            // SAFETY: all CTAs access the word with release, acquire and atomic operations only. Nobody signals it
            // again in this launch, because a CTA stores each part once.
            unsafe {
                isa::global::wait_acquire_gpu_u32(flag, 1);
                isa::global::atomic_add_u32(flag, u32::MAX);
            }
            own += WARPGROUP_THREADS;
        }
        reconverge();
        group.sync();
        let together = const { Self::together(N) };
        for first in (0..peers.count).step_by(together) {
            let place = |peer: usize| {
                let peer = (first + peer as u32).min(peers.count - 1);
                self.place::<N, R, Cl>(group, peers.at(peer), part).first
            };
            // SAFETY: inside the slice. The CTA wrote it before it signalled, and nobody writes it afterwards.
            let load = |at: *mut [u32; 4], i: usize, when: bool| unsafe {
                let at = at.wrapping_add(i * WARPGROUP_THREADS as usize);
                isa::global::ld_if(at.cast_const(), when, [0; 4]).map(f32::from_bits)
            };
            if together == 1 {
                let at = place(0);
                for i in 0..N / 8 {
                    sum.add_quad(i, load(at, i, true));
                }
                continue;
            }
            let mut quads = [[0.0; 4]; QUADS_IN_FLIGHT];
            for peer in 0..together {
                let (at, there) = (place(peer), first + (peer as u32) < peers.count);
                for i in 0..N / 8 {
                    quads[peer * (N / 8) + i] = load(at, i, there);
                }
            }
            #[expect(
                clippy::needless_range_loop,
                reason = "an iterator over the array would put it into local memory"
            )]
            for i in 0..together * (N / 8) {
                sum.add_quad(i % (N / 8), quads[i]);
            }
        }
    }
}

// SAFETY: the parameter is that of a slice of quads that the kernel may write. A checked launch passes the address
// and length of a live buffer that no other argument has.
unsafe impl KernelArg for Partials<'_> {
    type Abi = SliceAbi;
    const META: ParamMeta = <DeviceSliceMut<'_, Quad> as KernelArg>::META;
    #[isa::forceinline]
    unsafe fn from_abi(abi: SliceAbi) -> Self {
        Self(abi, core::marker::PhantomData)
    }
}

// SAFETY: `LAYOUT` is that of a slice of such elements. Access to the memory needs a token that exists only after
// the wait. The launch owns the memory, so there is no buffer of the user to borrow.
unsafe impl ByValue for Partials<'_> {
    const LAYOUT: u64 = <super::DependentSliceMut<'_, Quad> as ByValue>::LAYOUT;
}

// SAFETY: access needs a `Warpgroup` token, which exists only after the wait for the primary grids (in `Cta::init`
// or `BeforeWait::wait`).
unsafe impl AfterWait for Partials<'_> {}
