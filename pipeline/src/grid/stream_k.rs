//! Partial sums: tiles of the result whose K is shared among CTAs (split-K, stream-K).
//!
//! A CTA that did not begin a tile gives its sums away: it writes them to its own place in global
//! memory and raises a flag. The CTA that began the tile takes them, one giver after the other in a
//! fixed order, so the rounding is the same in every run. An [`Accumulator`] that is given is gone;
//! one that is added to is whole before anything reads it.
//!
//! ```text
//!   CTA 7:  … k = 12..31 of tile 3 ──► give: sums, then flag 7
//!   CTA 6:  k = 0..12 of tile 3 ──► take: wait for flag 7, add, lower the flag ──► epilogue
//! ```

use crate::cta::ClusterShape;
use crate::cta::{Role, WARPGROUP_THREADS, Warpgroup};
use crate::mma::{Accumulator, GROUP_ROWS};
use isa::device;
use isa::kernel::{AfterWait, ByValue, KernelArg, ParamMeta};
use isa::slice::{DeviceSliceMut, SliceAbi};
use isa::wgmma::{M64, Shape};

/// Four sums: what a thread moves at once.
type Quad = [f32; 4];

/// Room for one partial tile of each CTA of the grid, and two flags for each warp group's part of it.
///
/// All flags must be 0 before the first launch; every launch leaves them so. Behind each part's
/// sums lies its flag; [`Partials::bytes`] is what the host allocates.
///
/// (PTX a pointer and a length; CUTLASS the workspace of `PersistentTileSchedulerSm90StreamK`.)
///
/// ```
/// # use pipeline::{grid::Partials, prelude::*};
/// # roles! { Math = 2 x 232 registers }
/// # type Group = Warpgroup<Math, Cluster<1, 1>>;
/// /// CTA 0 finishes what CTA 1 has summed.
/// fn fix_up(all: &Partials<'_>, group: &Group, cta: u32, mut sum: Accumulator<128>) {
///     if cta == 1 {
///         all.store(group, 1, sum);
///         return;
///     }
///     all.reduce(group, 1, &mut sum);
///     let _sixteen_columns: [f32; 8] = sum.fragment(0);
/// }
/// assert_eq!(Partials::bytes(132, 2, 256), 132 * 2 * (64 * 256 * 4 + 2 * 128));
/// ```
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Partials<'a>(SliceAbi, core::marker::PhantomData<&'a mut [Quad]>);

/// Brings a warp together after one of its threads has been elsewhere: without it ptxas allows for a
/// warp that comes in parts from here on, and keeps what wgmma needs out of the uniform registers.
#[device]
fn meet() {
    // SAFETY: called where the group's token says that all lanes of the warp are here.
    unsafe { isa::warp::sync_warp(u32::MAX) }
}

/// Which `N` columns of a warp group's sums are given or taken: all, or one of two halves, each of which
/// has a flag. An [`Accumulator`] of another width does not fit.
///
/// (CUTLASS none: `fixup` moves whole tiles.)
///
/// ```
/// # use pipeline::{grid::{Part, Partials}, prelude::*};
/// # roles! { Math = 2 x 232 registers }
/// # type Group = Warpgroup<Math, Cluster<1, 1>>;
/// /// CTA 0 finishes what CTA 1 has summed, the left half while the right one is being multiplied.
/// fn fix_up_left(all: &Partials<'_>, group: &Group, cta: u32, mut left: Accumulator<128>) {
///     if cta == 1 {
///         all.store_part(group, 1, Part::left::<64>(), left);
///     } else {
///         all.reduce_part(group, 1, Part::left::<64>(), &mut left);
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Part<const N: usize> {
    /// Parts to the left of it.
    before: u32,
    /// The first column, of how many of the tile.
    first: usize,
    columns: usize,
}

impl<const N: usize> Part<N> {
    /// All `N` columns.
    ///
    /// See the example of [`Part`].
    #[inline(always)]
    #[must_use]
    pub const fn whole() -> Self {
        Self { before: 0, first: 0, columns: N }
    }

    /// The first `N` of `N` + `R` columns.
    ///
    /// See the example of [`Part`].
    #[inline(always)]
    #[must_use]
    pub const fn left<const R: usize>() -> Self {
        Self { before: 0, first: 0, columns: N + R }
    }

    /// The last `N` of `L` + `N` columns.
    ///
    /// See the example of [`Part`].
    #[inline(always)]
    #[must_use]
    pub const fn right<const L: usize>() -> Self {
        Self { before: 1, first: L, columns: L + N }
    }

    /// Its first column.
    ///
    /// ```
    /// # use pipeline::grid::Part;
    /// assert_eq!(Part::<64>::right::<128>().first(), 128);
    /// ```
    #[inline(always)]
    #[must_use]
    pub const fn first(&self) -> usize {
        self.first
    }
}

/// Quads behind the sums of a part: a cache line, which begins with the flag.
const FLAG: u32 = 8;
/// Parts of a warp group's sums, at most.
const PARTS: u32 = 2;

/// Quads of all sums of a warp group, and of their flags.
const fn quads_of_group(columns: usize) -> u32 {
    (GROUP_ROWS * columns / 4) as u32 + PARTS * FLAG
}

/// Where a thread finds its part of a tile.
struct Place {
    flag: *mut u32,
    first: *mut [u32; 4],
}

impl Partials<'_> {
    /// No memory: for launches in which no CTA shares a tile.
    pub const EMPTY: Self = Self(SliceAbi { address: 0, elements: 0 }, core::marker::PhantomData);

    /// Bytes for `ctas` CTAs whose tiles have 64 rows of `columns` columns for each of `groups` warp
    /// groups.
    ///
    /// (CUTLASS `get_workspace_size`.) See the example of [`Partials`].
    #[must_use]
    pub const fn bytes(ctas: u64, groups: u64, columns: u64) -> u64 {
        ctas * groups * quads_of_group(columns as usize) as u64 * size_of::<Quad>() as u64
    }

    /// The flag of this part of the group's sums of CTA `cta`, and the first of this thread's quads
    /// there. If the memory is too small for it, they are at address 0, and its first use ends the grid.
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
        // Nobody has memory at address 0. A trap would be a way out of the kernel, for whose sake ptxas
        // keeps the loading warp's coordinates in each thread's registers.
        let memory = if inside { self.0.address as *mut [u32; 4] } else { core::ptr::null_mut() };
        let at = |quad: u32| memory.wrapping_add(if inside { quad as usize } else { 0 });
        Place { flag: at(flag).cast(), first: at(first + group.thread()) }
    }

    /// Gives all of the group's sums away: [`store_part`](Self::store_part) of the whole.
    ///
    /// Waits for and signals what that does. (PTX as for it; CUTLASS as for it.) See the example of
    /// [`Partials`].
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

    /// Takes all of the group's sums: [`reduce_part`](Self::reduce_part) of the whole.
    ///
    /// Waits for and signals what that does. (PTX as for it; CUTLASS as for it.) See the example of
    /// [`Partials`].
    #[device]
    pub fn reduce<const N: usize, R: Role, Cl: ClusterShape>(
        &self,
        group: &Warpgroup<R, Cl>,
        cta: u32,
        sum: &mut Accumulator<N>,
    ) where
        M64<N>: Shape,
    {
        self.reduce_part(group, cta, Part::whole(), sum);
    }

    /// Gives part of the group's sums away, as those of CTA `cta`: writes them, and raises the flag.
    /// A CTA gives each part once in a launch.
    ///
    /// Waits for the group's other threads. Signals the flag. (PTX `st.global.v4`, `barrier.cta.sync`,
    /// `st.release.gpu`; CUTLASS `BlockStripedReduce::store`, `GenericBarrier::arrive_inc`.) See the example
    /// of [`Part`].
    #[device]
    #[allow(clippy::needless_pass_by_value)] // The sums are gone afterwards: that is the point.
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
            // SAFETY: inside the slice, which the launch lends to this grid alone; the place is this
            // thread's until the flag is up.
            unsafe { isa::global::st(at, sum.quad(i).map(f32::to_bits)) }
        }
        group.sync();
        if group.thread() == 0 {
            // SAFETY: a word that all reach atomically alone. The group has met, so the release
            // covers the sums of all its threads.
            unsafe { isa::global::st_release_gpu_u32(flag, 1) }
        }
        meet();
    }

    /// Adds what CTA `cta` gave of this part to the group's sums, and lowers the flag for the next
    /// launch.
    ///
    /// Waits for the flag, and the group's other threads. (PTX a loop of `ld.acquire.gpu`,
    /// `barrier.cta.sync`, `ld.global.v4`; CUTLASS `GenericBarrier::wait_eq_reset`,
    /// `BlockStripedReduce::load_add`.) See the example of [`Part`].
    #[device]
    pub fn reduce_part<const N: usize, R: Role, Cl: ClusterShape>(
        &self,
        group: &Warpgroup<R, Cl>,
        cta: u32,
        part: Part<N>,
        sum: &mut Accumulator<N>,
    ) where
        M64<N>: Shape,
    {
        let Place { flag, first } = self.place::<N, R, Cl>(group, cta, part);
        if group.thread() == 0 {
            // SAFETY: a word that all reach atomically alone. Nobody raises it again in this launch:
            // a CTA gives each part once.
            unsafe {
                isa::global::wait_acquire_gpu_u32(flag, 1);
                isa::global::atomic_add_u32(flag, u32::MAX);
            }
        }
        meet();
        group.sync();
        for i in 0..N / 8 {
            let at = first.wrapping_add(i * WARPGROUP_THREADS as usize);
            // SAFETY: inside the slice; written before the flag went up, and by nobody after.
            let given = unsafe { isa::global::ld(at.cast_const()) };
            sum.add_quad(i, given.map(f32::from_bits));
        }
    }
}

// SAFETY: the parameter is that of a slice of quads which the kernel may write; a checked launch
// passes the address and length of a live buffer that it gives to no other argument.
unsafe impl KernelArg for Partials<'_> {
    type Abi = SliceAbi;
    const META: ParamMeta = <DeviceSliceMut<'_, Quad> as KernelArg>::META;
    #[inline(always)]
    unsafe fn from_abi(abi: SliceAbi) -> Self {
        Self(abi, core::marker::PhantomData)
    }
}

// SAFETY: `LAYOUT` is that of a slice of such elements; what the address leads to needs a token that comes after
// the wait. Its memory is the launch's own, so there is no buffer of a user's to look for.
unsafe impl ByValue for Partials<'_> {
    const LAYOUT: u64 = <super::DependentSliceMut<'_, Quad> as ByValue>::LAYOUT;
}

// SAFETY: giving and taking need a warp group's token, which comes from `Ready::specialize`, after
// the wait of `Cta::init`.
unsafe impl AfterWait for Partials<'_> {}
