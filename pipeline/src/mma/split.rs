//! Accumulators that are split along N (SplitN), so that the epilogue of one tile overlaps the main
//! loop of the next.
//!
//! Invariant: a half is read only when no wgmma that writes it is in flight, and is multiplied
//! again only after it has been read out. The type parameter [`Halves`] says which halves are in
//! flight.
//!
//! If a tile takes all registers of a warp group, the group must write it before it begins the next
//! tile. The tensor cores idle in the meantime. So each k tile is multiplied as two wgmma groups,
//! the left columns and then the right ones. At the boundary of two tiles, one half is
//! written while the other is multiplied:
//!
//! ```text
//! wgmma      … left  right │ left'      right' …
//! registers                 left→D   right→D
//! ```
//!
//! [`SplitAccumulator::start`] issues the left half of the first k tile, and
//! [`SplitInFlight::start_right`] the right half. [`SplitInFlight::next`] issues both halves of a
//! further k tile. [`SplitInFlight::finish_left`] returns the left half while the right one is
//! still being multiplied, and [`SplitInFlight::finish`] returns the right half.

use crate::cta::ClusterShape;
use crate::cta::{Role, Warpgroup};
use crate::grid::Part;
use crate::mma::{Accumulator, MmaTiles};
use crate::ring::{FullSlot, MmaReaders, Name, RetiredSlot};
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use isa::device;
use isa::wgmma::{M64, Shape};

/// A warp group's 64 x (`L` + `R`) f32 accumulator in two halves: `L` columns, and the `R` columns
/// to their right.
///
/// (PTX: the D registers of `wgmma.mma_async`. CUTLASS has none: its cooperative kernels write a
/// tile before they begin the next.)
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{mma::SplitAccumulator, prelude::*, ring::*}};
/// # names! { Main = "main loop" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Alone = Cluster<1, 1>; fn write<const N: usize>(_: Accumulator<N>) where isa::wgmma::M64<N>: isa::wgmma::Shape {}
/// # type Operands = (Tile<bf16, 128, 64>, Tile<bf16, 256, 64>);
/// /// Tiles of 64 x 256 from 9 slots each. Columns 128 to 255 are written while the next tile's
/// /// columns 0 to 127 are multiplied.
/// fn tiles(mut full: Consumer<4, Operands, Mma<Math>, Main, Alone>, group: &Warpgroup<Math, Alone>) {
///     let mut sum = SplitAccumulator::<128, 128>::start(group, full.wait()).start_right();
///     for tile in 0..7 {
///         for _k in 1..9 {
///             sum.next(full.wait()).release();
///         }
///         let (left, rest) = sum.finish_left();
///         write(left);
///         let (right, last) = rest.finish();
///         last.release();
///         if tile == 6 {
///             return write(right);
///         }
///         let started = SplitAccumulator::start(group, full.wait());
///         write(right);
///         sum = started.start_right();
///     }
/// }
/// ```
pub struct SplitAccumulator<const L: usize, const R: usize>
where
    M64<L>: Shape,
    M64<R>: Shape,
{
    left: <M64<L> as Shape>::Regs,
    right: <M64<R> as Shape>::Regs,
}

mod sealed {
    pub trait Sealed {}
}
use sealed::Sealed;

/// Which halves the batches in flight write: [`LeftAlone`], [`Both`] or [`RightAlone`].
///
/// ```compile_fail
/// struct Neither;
/// impl warpipe_pipeline::mma::Halves for Neither {}
/// ```
pub trait Halves: Sealed {}

macro_rules! halves {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {$(
        $(#[doc = $doc])+
        ///
        /// See the example of [`SplitAccumulator`].
        #[derive(Clone, Copy, Debug)]
        pub struct $name;
        impl Sealed for $name {}
        impl Halves for $name {}
    )+};
}
halves! {
    /// Only the left half is in flight: the right half's products have not been issued.
    LeftAlone,
    /// Both halves are in flight.
    Both,
    /// Only the right half is in flight: the left half has been returned.
    RightAlone,
}

/// A split accumulator whose halves `H` are in flight, and the slot that the newest batches read.
///
/// Its methods wait for the batches whose results they return. (PTX: two `wgmma` groups for each k
/// tile.) See the example of [`SplitAccumulator`].
#[must_use = "a batch that is never finished keeps its slot: call `finish`"]
pub struct SplitInFlight<'g, const L: usize, const R: usize, H, Rd: MmaReaders, St, Tag, Cl>
where
    M64<L>: Shape,
    M64<R>: Shape,
{
    sum: SplitAccumulator<L, R>,
    slot: FullSlot<St, Rd, Tag, Cl>,
    group: &'g Warpgroup<Rd::Role, Cl>,
    halves: PhantomData<H>,
}

impl<const L: usize, const R: usize> SplitAccumulator<L, R>
where
    M64<L>: Shape,
    M64<R>: Shape,
{
    /// Starts an accumulation: issues the products of the first slot's left half and commits them
    /// as a wgmma group.
    ///
    /// The first wgmma computes D = A·B, so nothing needs zeroing.
    ///
    /// (PTX `wgmma.fence`, `wgmma.mma_async` BK / 16 times, `wgmma.commit_group`; CUTLASS
    /// `warpgroup_arrive`, `gemm` with `ScaleOut::Zero`, `warpgroup_commit_batch`.) See the example
    /// of [`SplitAccumulator`].
    #[device]
    pub fn start<Rd, St, Tag, Cl>(
        group: &Warpgroup<Rd::Role, Cl>,
        slot: FullSlot<St, Rd, Tag, Cl>,
    ) -> SplitInFlight<'_, L, R, LeftAlone, Rd, St, Tag, Cl>
    where
        Rd: MmaReaders,
        St: MmaTiles,
        Tag: Name,
        Cl: ClusterShape,
    {
        let mut sum = Self { left: <M64<L> as Shape>::ZERO, right: <M64<R> as Shape>::ZERO };
        sum.issue_left(&slot, group, false);
        SplitInFlight { sum, slot, group, halves: PhantomData }
    }

    #[device]
    fn issue_left<Rd, St, Tag, Cl>(
        &mut self,
        slot: &FullSlot<St, Rd, Tag, Cl>,
        group: &Warpgroup<Rd::Role, Cl>,
        accumulate: bool,
    ) where
        Rd: MmaReaders,
        St: MmaTiles,
        Tag: Name,
        Cl: ClusterShape,
    {
        const { assert!(L + R == St::COLUMNS, "the halves are all columns of the tile of B") }
        let regs = core::array::from_mut(&mut self.left);
        // SAFETY: the group token proves four converged warps, and the slot token proves that the
        // tiles have arrived. The slot and the registers stay inside `SplitInFlight` until a wait.
        unsafe {
            isa::wgmma::fence();
            St::issue::<Rd, L, 1>(slot.data(), group.index(), 0, regs, accumulate);
            isa::wgmma::commit_group();
        }
    }

    #[device]
    fn issue_right<Rd, St, Tag, Cl>(
        &mut self,
        slot: &FullSlot<St, Rd, Tag, Cl>,
        group: &Warpgroup<Rd::Role, Cl>,
        accumulate: bool,
    ) where
        Rd: MmaReaders,
        St: MmaTiles,
        Tag: Name,
        Cl: ClusterShape,
    {
        let regs = core::array::from_mut(&mut self.right);
        // SAFETY: as in `issue_left`; the right half's columns follow the left half's.
        unsafe {
            isa::wgmma::fence();
            St::issue::<Rd, R, 1>(slot.data(), group.index(), L, regs, accumulate);
            isa::wgmma::commit_group();
        }
    }
}

/// Waits until at most `PENDING` of the group's batches are in flight.
#[device]
fn wait<const PENDING: u32, Ro: Role, Cl>(_group: &Warpgroup<Ro, Cl>) {
    // SAFETY: the group token proves four converged warps.
    unsafe { isa::wgmma::wait_group::<PENDING>() };
}

impl<'g, const L: usize, const R: usize, H, Rd: MmaReaders, St, Tag, Cl>
    SplitInFlight<'g, L, R, H, Rd, St, Tag, Cl>
where
    M64<L>: Shape,
    M64<R>: Shape,
{
    /// Changes the type to say that the halves `To` are in flight.
    #[isa::forceinline]
    fn into_state<To>(self) -> SplitInFlight<'g, L, R, To, Rd, St, Tag, Cl> {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is never dropped, so no value exists twice.
        let (sum, slot) = unsafe {
            (core::ptr::read(&raw const this.sum), core::ptr::read(&raw const this.slot))
        };
        SplitInFlight { sum, slot, group: this.group, halves: PhantomData }
    }
}

impl<'g, const L: usize, const R: usize, Rd, St, Tag, Cl>
    SplitInFlight<'g, L, R, LeftAlone, Rd, St, Tag, Cl>
where
    M64<L>: Shape,
    M64<R>: Shape,
    Rd: MmaReaders,
    St: MmaTiles,
    Tag: Name,
    Cl: ClusterShape,
{
    /// Issues the products of the first slot's right half. Until this call, the previous
    /// accumulation may have used that half's registers.
    ///
    /// (PTX and CUTLASS: as for [`SplitAccumulator::start`].) See the example of
    /// [`SplitAccumulator`].
    #[device]
    pub fn start_right(mut self) -> SplitInFlight<'g, L, R, Both, Rd, St, Tag, Cl> {
        self.sum.issue_right(&self.slot, self.group, false);
        self.into_state()
    }
}

impl<'g, const L: usize, const R: usize, Rd, St, Tag, Cl>
    SplitInFlight<'g, L, R, Both, Rd, St, Tag, Cl>
where
    M64<L>: Shape,
    M64<R>: Shape,
    Rd: MmaReaders,
    St: MmaTiles,
    Tag: Name,
    Cl: ClusterShape,
{
    /// Issues the products of `slot` after those in flight, and returns the slot that the older
    /// batches have finished reading.
    ///
    /// Waits for the older batches. (PTX: for each half `wgmma.fence`, `wgmma.mma_async` BK / 16
    /// times and `wgmma.commit_group`; then `wgmma.wait_group 2`. CUTLASS: as for
    /// [`InFlight::next`](crate::mma::InFlight::next), in halves.) See the example of
    /// [`SplitAccumulator`].
    #[device]
    pub fn next(&mut self, slot: FullSlot<St, Rd, Tag, Cl>) -> RetiredSlot<St, Rd, Tag, Cl> {
        self.sum.issue_left(&slot, self.group, true);
        self.sum.issue_right(&slot, self.group, true);
        wait::<2, _, _>(self.group);
        // SAFETY: only the two batches just committed can be in flight, so nothing reads the older
        // slot any more.
        unsafe { core::mem::replace(&mut self.slot, slot).into_retired() }
    }

    /// Ends the left half and returns it. The right half is still being multiplied.
    ///
    /// Waits for the left half's batch. (PTX `wgmma.wait_group 1`; CUTLASS `warpgroup_wait<1>`,
    /// `warpgroup_fence_operand`.) See the example of [`SplitAccumulator`].
    #[device]
    pub fn finish_left(
        mut self,
    ) -> (Accumulator<L>, SplitInFlight<'g, L, R, RightAlone, Rd, St, Tag, Cl>) {
        wait::<1, _, _>(self.group);
        // To the compiler the registers have had their values since the wgmma was issued. The fence
        // keeps it from moving their first use above the wait.
        M64::<L>::fence_operand(&mut self.sum.left);
        (Accumulator::from_regs(self.sum.left), self.into_state())
    }
}

impl<const L: usize, const R: usize, Rd, St, Tag, Cl>
    SplitInFlight<'_, L, R, RightAlone, Rd, St, Tag, Cl>
where
    M64<L>: Shape,
    M64<R>: Shape,
    Rd: MmaReaders,
    St: MmaTiles,
    Tag: Name,
    Cl: ClusterShape,
{
    /// Ends the accumulation: returns the right half and the last slot.
    ///
    /// Waits for the batch in flight. (PTX `wgmma.wait_group 0`; CUTLASS `warpgroup_wait<0>`,
    /// `warpgroup_fence_operand`.) See the example of [`SplitAccumulator`].
    #[device]
    pub fn finish(self) -> (Accumulator<R>, RetiredSlot<St, Rd, Tag, Cl>) {
        wait::<0, _, _>(self.group);
        let mut this = ManuallyDrop::new(self);
        M64::<R>::fence_operand(&mut this.sum.right);
        // SAFETY: no batch is in flight after the wait. `this` is never dropped, so the slot does
        // not exist twice.
        let last = unsafe { core::ptr::read(&raw const this.slot).into_retired() };
        (Accumulator::from_regs(this.sum.right), last)
    }
}

/// Waits for batches that are dropped, so that they can't write registers that have been reused by
/// then.
///
/// Their slot is lost, so the ring stops.
///
/// (PTX `wgmma.wait_group 0`; no instruction in code that finishes every accumulation.)
impl<const L: usize, const R: usize, H, Rd: MmaReaders, St, Tag, Cl> Drop
    for SplitInFlight<'_, L, R, H, Rd, St, Tag, Cl>
where
    M64<L>: Shape,
    M64<R>: Shape,
{
    #[device]
    fn drop(&mut self) {
        wait::<0, _, _>(self.group);
        M64::<L>::fence_operand(&mut self.sum.left);
        M64::<R>::fence_operand(&mut self.sum.right);
    }
}

/// Passes two halves of an accumulator, one after the other, to the same code.
///
/// Use it where overlapping the halves gains nothing: the code exists once, and a second copy would
/// only make the kernel longer.
///
/// (PTX: a loop of two iterations, not unrolled.)
///
/// ```
/// # use warpipe_pipeline::{mma, prelude::*};
/// fn elements(left: Accumulator<64>, right: Accumulator<64>) -> [f32; 2] {
///     let mut first = [0.0; 2];
///     mma::one_by_one(left, right, |part, half| {
///         first[part.first() / 64] = half.fragment(0)[0];
///     });
///     first
/// }
/// ```
#[isa::forceinline]
pub fn one_by_one<const N: usize>(
    left: Accumulator<N>,
    right: Accumulator<N>,
    mut to: impl FnMut(Part<N>, Accumulator<N>),
) where
    M64<N>: Shape,
{
    let (mut half, right) = (left.into_regs(), right.into_regs());
    let mut part = Part::left::<N>();
    for _ in 0..isa::misc::opaque(2) {
        isa::misc::nounroll();
        to(part, Accumulator::from_regs(half));
        (half, part) = (right, Part::right::<N>());
    }
}
