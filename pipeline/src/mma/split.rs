//! Sums in two halves, so that one can be written out while the tensor cores are at the other.
//!
//! A warp group whose tile takes all its registers can't begin the next one before it has written
//! this one, and meanwhile its tensor cores would rest. So each stage is multiplied as two wgmma
//! groups, the left columns and then the right ones, and the ends of two tiles overlap:
//!
//! ```text
//! wgmma      … left  right │ left'      right' …
//! registers                 left→D   right→D
//! ```
//!
//! The states are types: [`SplitAccumulator::start`] issues the left half, [`SplitInFlight::start_right`]
//! the right one, [`SplitInFlight::next`] both of a further stage; [`SplitInFlight::finish_left`] gives
//! the left half while the right one is multiplied, [`SplitInFlight::finish`] the rest.

use crate::cta::ClusterShape;
use crate::cta::{Role, Warpgroup};
use crate::grid::Part;
use crate::mma::{Accumulator, MmaTiles};
use crate::ring::{FullSlot, MmaReaders, Name, RetiredSlot};
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use isa::device;
use isa::wgmma::{M64, Shape};

/// A warp group's 64 x (`L` + `R`) block of f32 sums: `L` columns, and `R` to the right of them.
///
/// Waits for nothing. Signals nothing. PTX: the D registers of `wgmma.mma_async`. CUTLASS: none: its
/// cooperative kernels write a tile before they begin the next.
///
/// ```
/// # use {half::bf16, pipeline::{mma::SplitAccumulator, prelude::*, ring::*}};
/// # names! { Main = "main loop" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Alone = Cluster<1, 1>; fn write<const N: usize>(_: Accumulator<N>) where isa::wgmma::M64<N>: isa::wgmma::Shape {}
/// # type Operands = (Tile<bf16, 128, 64>, Tile<bf16, 256, 64>);
/// /// Tiles of 64 x 256 sums from 9 slots each: the columns from 128 on are written while the next
/// /// tile's first ones are multiplied.
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

/// Which halves the batches in flight write.
///
/// Waits for nothing, signals nothing; PTX and CUTLASS: none.
///
/// ```compile_fail
/// struct Neither;
/// impl pipeline::mma::Halves for Neither {}
/// ```
pub trait Halves: Sealed {}

macro_rules! halves {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {$(
        $(#[doc = $doc])+
        ///
        /// Waits for nothing, signals nothing; PTX and CUTLASS: none. See the example of
        /// [`SplitAccumulator`].
        #[derive(Clone, Copy, Debug)]
        pub struct $name;
        impl Sealed for $name {}
        impl Halves for $name {}
    )+};
}
halves! {
    /// The left half alone: the right one's products are not issued yet.
    LeftAlone,
    /// Both.
    Both,
    /// The right half alone: the left one has been handed out.
    RightAlone,
}

/// A sum in halves of which wgmmas write those that `H` says, and the slot that they read last.
///
/// Waits for its batches, when it is asked for what they give. Signals nothing. PTX: two `wgmma`
/// groups a stage. CUTLASS: none. See the example of [`SplitAccumulator`].
#[must_use = "a batch that is never finished keeps its slot"]
pub struct SplitInFlight<'g, const L: usize, const R: usize, H, W: MmaReaders, S, Tag, Cl>
where
    M64<L>: Shape,
    M64<R>: Shape,
{
    sum: SplitAccumulator<L, R>,
    slot: FullSlot<S, W, Tag, Cl>,
    group: &'g Warpgroup<W::Role, Cl>,
    halves: PhantomData<H>,
}

impl<const L: usize, const R: usize> SplitAccumulator<L, R>
where
    M64<L>: Shape,
    M64<R>: Shape,
{
    /// Starts a sum: issues the products of the first slot's left half (D = A·B, so nothing needs
    /// zeroing) and commits them as a wgmma group.
    ///
    /// Waits for nothing. Signals nothing. PTX: `wgmma.fence`, `wgmma.mma_async` BK / 16 times,
    /// `wgmma.commit_group`. CUTLASS: `warpgroup_arrive`, `gemm` with `ScaleOut::Zero`,
    /// `warpgroup_commit_batch`. See the example of [`SplitAccumulator`].
    #[device]
    pub fn start<W, S, Tag, Cl>(
        group: &Warpgroup<W::Role, Cl>,
        slot: FullSlot<S, W, Tag, Cl>,
    ) -> SplitInFlight<'_, L, R, LeftAlone, W, S, Tag, Cl>
    where
        W: MmaReaders,
        S: MmaTiles,
        Tag: Name,
        Cl: ClusterShape,
    {
        let mut sum = Self { left: <M64<L> as Shape>::ZERO, right: <M64<R> as Shape>::ZERO };
        sum.issue_left(&slot, group, false);
        SplitInFlight { sum, slot, group, halves: PhantomData }
    }

    #[device]
    fn issue_left<W, S, Tag, Cl>(
        &mut self,
        slot: &FullSlot<S, W, Tag, Cl>,
        group: &Warpgroup<W::Role, Cl>,
        accumulate: bool,
    ) where
        W: MmaReaders,
        S: MmaTiles,
        Tag: Name,
        Cl: ClusterShape,
    {
        const { assert!(L + R == S::COLUMNS, "the halves are all columns of the tile of B") }
        let regs = core::array::from_mut(&mut self.left);
        // SAFETY: the group token stands for four converged warps, the slot token for tiles that
        // have arrived; the slot and the registers stay inside `SplitInFlight` until a wait.
        unsafe {
            isa::wgmma::fence();
            S::issue::<W, L, 1>(slot.data(), group.index(), 0, regs, accumulate);
            isa::wgmma::commit_group();
        }
    }

    #[device]
    fn issue_right<W, S, Tag, Cl>(
        &mut self,
        slot: &FullSlot<S, W, Tag, Cl>,
        group: &Warpgroup<W::Role, Cl>,
        accumulate: bool,
    ) where
        W: MmaReaders,
        S: MmaTiles,
        Tag: Name,
        Cl: ClusterShape,
    {
        let regs = core::array::from_mut(&mut self.right);
        // SAFETY: as in `issue_left`; the right half's columns begin behind the left one's.
        unsafe {
            isa::wgmma::fence();
            S::issue::<W, R, 1>(slot.data(), group.index(), L, regs, accumulate);
            isa::wgmma::commit_group();
        }
    }
}

/// Waits until at most `PENDING` of the group's batches are in flight.
#[device]
fn wait<const PENDING: u32, R: Role, Cl>(_group: &Warpgroup<R, Cl>) {
    // SAFETY: the group token: four converged warps.
    unsafe { isa::wgmma::wait_group::<PENDING>() };
}

impl<'g, const L: usize, const R: usize, H, W: MmaReaders, S, Tag, Cl>
    SplitInFlight<'g, L, R, H, W, S, Tag, Cl>
where
    M64<L>: Shape,
    M64<R>: Shape,
{
    /// The same, of which other halves are in flight.
    #[inline(always)]
    fn with<To>(self) -> SplitInFlight<'g, L, R, To, W, S, Tag, Cl> {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is not dropped, so nothing is there twice.
        let (sum, slot) = unsafe {
            (core::ptr::read(&raw const this.sum), core::ptr::read(&raw const this.slot))
        };
        SplitInFlight { sum, slot, group: this.group, halves: PhantomData }
    }
}

impl<'g, const L: usize, const R: usize, W, S, Tag, Cl>
    SplitInFlight<'g, L, R, LeftAlone, W, S, Tag, Cl>
where
    M64<L>: Shape,
    M64<R>: Shape,
    W: MmaReaders,
    S: MmaTiles,
    Tag: Name,
    Cl: ClusterShape,
{
    /// Issues the products of the right half, which the sum before it may have used until now.
    ///
    /// Waits for nothing. Signals nothing. PTX: as [`SplitAccumulator::start`]. CUTLASS: as for it.
    /// See the example of [`SplitAccumulator`].
    #[device]
    pub fn start_right(mut self) -> SplitInFlight<'g, L, R, Both, W, S, Tag, Cl> {
        self.sum.issue_right(&self.slot, self.group, false);
        self.with()
    }
}

impl<'g, const L: usize, const R: usize, W, S, Tag, Cl> SplitInFlight<'g, L, R, Both, W, S, Tag, Cl>
where
    M64<L>: Shape,
    M64<R>: Shape,
    W: MmaReaders,
    S: MmaTiles,
    Tag: Name,
    Cl: ClusterShape,
{
    /// Issues the products of `slot` behind those in flight, and returns the slot that the older
    /// ones have read.
    ///
    /// Waits for the older batches. Signals nothing. PTX: twice `wgmma.fence`, `wgmma.mma_async`
    /// BK / 16 times and `wgmma.commit_group`; `wgmma.wait_group 2`. CUTLASS: as
    /// [`InFlight::next`](crate::mma::InFlight::next), in halves. See the example of
    /// [`SplitAccumulator`].
    #[device]
    pub fn next(&mut self, slot: FullSlot<S, W, Tag, Cl>) -> RetiredSlot<S, Tag, Cl> {
        self.sum.issue_left(&slot, self.group, true);
        self.sum.issue_right(&slot, self.group, true);
        wait::<2, _, _>(self.group);
        // SAFETY: the two batches just committed are the only ones in flight, so the older slot is
        // read no more.
        unsafe { core::mem::replace(&mut self.slot, slot).retired() }
    }

    /// Ends the left half, and returns it. The right one is still being multiplied.
    ///
    /// Waits for the left half's batch. Signals nothing. PTX: `wgmma.wait_group 1`. CUTLASS:
    /// `warpgroup_wait<1>`, `warpgroup_fence_operand`. See the example of [`SplitAccumulator`].
    #[device]
    pub fn finish_left(
        mut self,
    ) -> (Accumulator<L>, SplitInFlight<'g, L, R, RightAlone, W, S, Tag, Cl>) {
        wait::<1, _, _>(self.group);
        // The compiler takes the sums for known since the wgmma was issued: keep it from moving
        // their first use above the wait.
        M64::<L>::fence_operand(&mut self.sum.left);
        (Accumulator::of(self.sum.left), self.with())
    }
}

impl<const L: usize, const R: usize, W, S, Tag, Cl>
    SplitInFlight<'_, L, R, RightAlone, W, S, Tag, Cl>
where
    M64<L>: Shape,
    M64<R>: Shape,
    W: MmaReaders,
    S: MmaTiles,
    Tag: Name,
    Cl: ClusterShape,
{
    /// Ends the sum: returns the right half and the last slot.
    ///
    /// Waits for the batch in flight. Signals nothing. PTX: `wgmma.wait_group 0`. CUTLASS:
    /// `warpgroup_wait<0>`, `warpgroup_fence_operand`. See the example of [`SplitAccumulator`].
    #[device]
    pub fn finish(self) -> (Accumulator<R>, RetiredSlot<S, Tag, Cl>) {
        wait::<0, _, _>(self.group);
        let mut this = ManuallyDrop::new(self);
        M64::<R>::fence_operand(&mut this.sum.right);
        // SAFETY: no batch is in flight after the wait; `this` is not dropped, so the slot is not
        // there twice.
        let last = unsafe { core::ptr::read(&raw const this.slot).retired() };
        (Accumulator::of(this.sum.right), last)
    }
}

/// Batches that are dropped are waited for, so that they can't write registers that have another use
/// by then. Their slot is lost, and the ring stops for want of it.
///
/// Waits for the batches in flight. Signals nothing. PTX: `wgmma.wait_group 0`; where every sum is
/// finished, nothing. CUTLASS: none.
impl<const L: usize, const R: usize, H, W: MmaReaders, S, Tag, Cl> Drop
    for SplitInFlight<'_, L, R, H, W, S, Tag, Cl>
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

/// Hands out two halves of a sum, one after the other, to the same code: where nothing is gained by
/// their overlapping, and each copy of it stands in the way of what comes behind.
///
/// Waits for nothing. Signals nothing. PTX: a loop of two rounds. CUTLASS: none.
///
/// ```
/// # use pipeline::{mma, prelude::*};
/// fn elements(left: Accumulator<64>, right: Accumulator<64>) -> [f32; 2] {
///     let mut first = [0.0; 2];
///     mma::one_by_one(left, right, |part, half| {
///         first[part.first() / 64] = half.fragment(0)[0];
///     });
///     first
/// }
/// ```
#[inline(always)]
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
        to(part, Accumulator::of(half));
        (half, part) = (right, Part::right::<N>());
    }
}
