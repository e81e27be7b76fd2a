//! Accumulators with promotion: the tensor cores sum one k tile at a time, in *parts* of the columns, and the warp group
//! adds each part to its own f32 sums.
//!
//! Invariant: a part is read only when no wgmma that writes it is in flight, and the sums are returned only when all
//! parts have been added. A part is not a sum: no method returns it.
//!
//! The tensor cores accumulate products of 8-bit floats with fewer bits than f32 ([`isa::wgmma`]). Over a long K the error
//! grows, and with values of one sign it becomes a bias. Here a sum in the tensor cores covers one k tile at most, 128 along
//! K. (CUTLASS `GmmaFP8Accumulation`, `promote_if_needed`; torch: `use_fast_accum=False`.)
//!
//! Two parts alternate, so that one is added while the other is multiplied:
//!
//! ```text
//! wgmma   k: 0   1   2   3 │ k+1: 0   1   2   3
//! add            0   1   2 │      3   0   1   2
//! ```
//!
//! [`PromotedAccumulator::start`] issues the first part of the first k tile. [`PromotedInFlight::next`] issues the other
//! parts, and the first part of the next k tile. So one part is in flight between two calls, and the tensor cores stay
//! busy while the warp group waits for a slot. [`PromotedInFlight::finish`] returns the sums.
//! [`PromotedInFlight::finish_left`] returns all sums but those of the last part, which is then in flight.

use crate::cta::{ClusterShape, Warpgroup};
use crate::mma::{Accumulator, PromoteTiles};
use crate::ring::{FullSlot, MmaReaders, Name, RetiredSlot, warp_row};
use core::mem::ManuallyDrop;
use isa::device;
use isa::wgmma::{M64, Shape};

/// The registers of `N` columns.
pub(super) type Regs<const N: usize> = <M64<N> as Shape>::Regs;

/// A warp group's f32 accumulator of 64 rows and `P` parts of `W` columns, which are added after each k tile.
///
/// `P` is even. The sums take `P` * `W` / 2 registers of a thread, and the two parts `W`.
///
/// (PTX: the D registers of `wgmma.mma_async` are those of the parts. CUTLASS: `accum` and the temporary accumulator of
/// `GmmaFP8Accumulation`.)
///
/// ```
/// # use {float8::F8E4M3, warpipe_pipeline::{mma::PromotedAccumulator, prelude::*, ring::*}};
/// # names! { Main = "main loop" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Alone = Cluster<1, 1>; fn write<const N: usize>(_: Accumulator<N>) where isa::wgmma::M64<N>: isa::wgmma::Shape {}
/// # type Operands = (Tile<F8E4M3, 128, 128>, Tile<F8E4M3, 256, 128>);
/// /// Tiles of 64 x 256 from 9 slots each. Columns 0 to 191 are written while the last part is multiplied, and columns
/// /// 192 to 255 while the first part of the next tile is.
/// fn tiles(mut full: Consumer<4, Operands, Mma<Math>, Main, Alone>, group: &Warpgroup<Math, Alone>) {
///     let mut sum = PromotedAccumulator::<4, 64>::start(group, full.wait());
///     for tile in 0..7 {
///         for _k in 1..9 {
///             sum.next(|| full.wait()).release();
///         }
///         let (left, rest) = sum.finish_left::<192>();
///         write(left);
///         let (right, last) = rest.finish();
///         last.release();
///         if tile == 6 {
///             return write(right);
///         }
///         sum = PromotedAccumulator::start(group, full.wait());
///         write(right);
///     }
/// }
/// ```
pub struct PromotedAccumulator<const P: usize, const W: usize>
where
    M64<W>: Shape,
{
    sums: [Regs<W>; P],
    /// Part `i` of a k tile is `parts[i % 2]`.
    parts: [Regs<W>; 2],
}

/// A promoted accumulator, with the first part of the newest slot in flight.
///
/// See the example of [`PromotedAccumulator`].
#[must_use = "a part that is never finished keeps its slot: call `finish`"]
pub struct PromotedInFlight<
    'g,
    const P: usize,
    const W: usize,
    Rd: MmaReaders,
    St: PromoteTiles<Rd>,
    Tag,
    Cl,
> where
    M64<W>: Shape,
{
    acc: PromotedAccumulator<P, W>,
    slot: FullSlot<St, Rd, Tag, Cl>,
    /// The scale factors of the slot.
    factors: St::Factors,
    group: &'g Warpgroup<Rd::Role, Cl>,
}

/// The last part of a promoted accumulator, in flight, and the sums of its `W` columns before it is added.
///
/// [`PromotedInFlight::finish_left`] has returned the other sums. See the example of [`PromotedAccumulator`].
#[must_use = "a part that is never finished keeps its slot: call `finish`"]
pub struct LastPart<'g, const W: usize, Rd: MmaReaders, St: PromoteTiles<Rd>, Tag, Cl>
where
    M64<W>: Shape,
{
    sums: Regs<W>,
    part: Regs<W>,
    slot: FullSlot<St, Rd, Tag, Cl>,
    factors: St::Factors,
    /// The first of its columns.
    first: usize,
    group: &'g Warpgroup<Rd::Role, Cl>,
}

/// Waits until at most `PENDING` of the group's batches are in flight.
#[device]
pub(super) fn wait<const PENDING: u32, Ro: crate::cta::Role, Cl>(_group: &Warpgroup<Ro, Cl>) {
    // SAFETY: the group token proves four converged warps.
    unsafe { isa::wgmma::wait_group::<PENDING>() };
}

/// The sums of adjacent parts as one accumulator.
#[isa::forceinline]
fn joined<const N: usize, const W: usize>(sums: &[Regs<W>]) -> Accumulator<N>
where
    M64<N>: Shape,
    M64<W>: Shape,
{
    let mut regs = <M64<N> as Shape>::ZERO;
    for (to, from) in regs.as_mut().chunks_exact_mut(W / 2).zip(sums) {
        to.copy_from_slice(from.as_ref());
    }
    Accumulator::from_regs(regs)
}

/// Issues the product of the slot's columns from `first` on, and commits it as a wgmma group.
///
/// # Safety
/// The slot and the registers stay where they are until a wait has retired the group.
#[device]
pub(super) unsafe fn issue<const W: usize, Rd, St, Tag, Cl>(
    part: &mut Regs<W>,
    slot: &FullSlot<St, Rd, Tag, Cl>,
    group: &Warpgroup<Rd::Role, Cl>,
    first: usize,
) where
    M64<W>: Shape,
    Rd: MmaReaders,
    St: PromoteTiles<Rd>,
    Tag: Name,
    Cl: ClusterShape,
{
    let regs = core::array::from_mut(part);
    // SAFETY: the group token proves four converged warps, and the slot token proves that the tiles have arrived. The rest is
    // the caller's contract.
    unsafe {
        isa::wgmma::fence();
        St::issue::<Rd, W, 1>(slot.data(), group.index(), first, regs, false);
        isa::wgmma::commit_group();
    }
}

/// Adds a part, which is no longer in flight, to the sums of its columns, from column `first` on.
///
/// To the compiler the part has had its values since the wgmma was issued. The fence keeps it from moving their first use
/// above the wait. Without the fence of the sums it would add later, and keep copies of the parts until then.
#[device]
pub(super) fn add<const W: usize, Rd: MmaReaders, St: PromoteTiles<Rd>>(
    sums: &mut Regs<W>,
    part: &mut Regs<W>,
    first: usize,
    factors: &St::Factors,
) where
    M64<W>: Shape,
{
    M64::<W>::fence_operand(part);
    St::promote(sums.as_mut(), part.as_ref(), first, factors);
    M64::<W>::fence_operand(sums);
}

/// Reads this thread's scale factors of a full slot, if it has any.
#[device]
pub(super) fn factors<Rd, St, Tag, Cl>(
    slot: &FullSlot<St, Rd, Tag, Cl>,
    group: &Warpgroup<Rd::Role, Cl>,
) -> St::Factors
where
    Rd: MmaReaders,
    St: PromoteTiles<Rd>,
    Tag: Name,
    Cl: ClusterShape,
{
    let lane = group.thread() % 32;
    let (row, column) = (warp_row::<Rd, Cl>(group) + lane / 4, lane % 4 * 2);
    // SAFETY: the token proves that the slot is full. A warp has 16 rows of the tile of A, and a lane two of them, 8 apart.
    unsafe { St::factors(slot.beside(), row, column) }
}

impl<const P: usize, const W: usize> PromotedAccumulator<P, W>
where
    M64<W>: Shape,
{
    const LAST: usize = {
        assert!(
            P >= 2 && P.is_multiple_of(2),
            "two parts alternate, so a promoted accumulator has 2, 4, ... parts"
        );
        P - 1
    };

    /// Starts an accumulation: issues the first part of the first slot and commits it as a wgmma group.
    ///
    /// (PTX `wgmma.fence`, `wgmma.mma_async` BK / 32 times, `wgmma.commit_group`; CUTLASS `warpgroup_arrive`, `gemm` with
    /// `ScaleOut::Zero`, `warpgroup_commit_batch`.) See the example of [`PromotedAccumulator`].
    #[device]
    pub fn start<Rd, St, Tag, Cl>(
        group: &Warpgroup<Rd::Role, Cl>,
        slot: FullSlot<St, Rd, Tag, Cl>,
    ) -> PromotedInFlight<'_, P, W, Rd, St, Tag, Cl>
    where
        Rd: MmaReaders,
        St: PromoteTiles<Rd>,
        Tag: Name,
        Cl: ClusterShape,
    {
        let zero = <M64<W> as Shape>::ZERO;
        let mut acc = Self { sums: [zero; P], parts: [zero; 2] };
        acc.issue(&slot, group, 0);
        let factors = factors(&slot, group);
        PromotedInFlight { acc, slot, factors, group }
    }

    /// Issues part `part` of a slot.
    #[device]
    fn issue<Rd, St, Tag, Cl>(
        &mut self,
        slot: &FullSlot<St, Rd, Tag, Cl>,
        group: &Warpgroup<Rd::Role, Cl>,
        part: usize,
    ) where
        Rd: MmaReaders,
        St: PromoteTiles<Rd>,
        Tag: Name,
        Cl: ClusterShape,
    {
        const { assert!(P * W == St::COLUMNS, "the parts are all columns of the tile of B") }
        // SAFETY: the slot and the registers stay inside `PromotedInFlight` or `LastPart` until a wait.
        unsafe { issue::<W, _, _, _, _>(&mut self.parts[part % 2], slot, group, part * W) };
    }

    /// Adds part `part`, which is no longer in flight.
    #[device]
    fn promote<Rd: MmaReaders, St: PromoteTiles<Rd>>(
        &mut self,
        part: usize,
        factors: &St::Factors,
    ) {
        add::<W, Rd, St>(&mut self.sums[part], &mut self.parts[part % 2], part * W, factors);
    }
}

impl<'g, const P: usize, const W: usize, Rd, St, Tag, Cl>
    PromotedInFlight<'g, P, W, Rd, St, Tag, Cl>
where
    M64<W>: Shape,
    Rd: MmaReaders,
    St: PromoteTiles<Rd>,
    Tag: Name,
    Cl: ClusterShape,
{
    /// Issues part `part` of the slot, waits for the part before it and adds that. `between` comes before the wait.
    #[device]
    fn step<T>(&mut self, part: usize, between: impl FnOnce() -> T) -> T {
        self.acc.issue(&self.slot, self.group, part);
        let result = between();
        wait::<1, _, _>(self.group);
        self.acc.promote::<Rd, St>(part - 1, &self.factors);
        result
    }

    /// Issues all other parts of the slot, and adds all but the last one, which is in flight then.
    #[device]
    fn all_but_last(&mut self) {
        for part in 1..P {
            self.step(part, || ());
        }
    }

    /// Multiplies and adds the rest of the slot, and issues the first part of the next slot, which the closure `next`
    /// returns. Returns the older slot, which has been read.
    ///
    /// `next` waits for the slot while the last part of the older one is multiplied. Scale factors of the next slot are
    /// read one part before they are needed: the wgmmas keep shared memory busy, so that a load takes long. Waits for every
    /// part before it is added. (PTX: for each part `wgmma.fence`, `wgmma.mma_async` BK / 32 times, `wgmma.commit_group`,
    /// `wgmma.wait_group 1` and additions; CUTLASS: `GmmaFP8Accumulation::promote_if_needed`, here with two temporary
    /// accumulators.) See the example of [`PromotedAccumulator`].
    #[device]
    pub fn next(
        &mut self,
        next: impl FnOnce() -> FullSlot<St, Rd, Tag, Cl>,
    ) -> RetiredSlot<St, Rd, Tag, Cl> {
        let last = PromotedAccumulator::<P, W>::LAST;
        let group = self.group;
        let (slot, later) = if St::SCALED {
            for part in 1..last {
                self.step(part, || ());
            }
            self.step(last, || {
                let slot = next();
                let factors = factors(&slot, group);
                (slot, factors)
            })
        } else {
            self.all_but_last();
            (next(), self.factors)
        };
        self.acc.issue(&slot, group, 0);
        wait::<1, _, _>(group);
        self.acc.promote::<Rd, St>(last, &self.factors);
        self.factors = later;
        // SAFETY: only the batch just committed can be in flight, so nothing reads the older slot any more.
        unsafe { core::mem::replace(&mut self.slot, slot).into_retired() }
    }

    /// Ends the accumulation: returns all sums and the last slot.
    ///
    /// Waits for all parts. (PTX: as [`next`](Self::next), then `wgmma.wait_group 0`.)
    ///
    /// ```
    /// # use {float8::F8E4M3, warpipe_pipeline::{mma::PromotedAccumulator, prelude::*, ring::*}};
    /// # names! { Main = "main loop" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
    /// # type Operands = (Tile<F8E4M3, 128, 128>, Tile<F8E4M3, 128, 128>);
    /// # type Slot = FullSlot<Operands, Mma<Math>, Main, Cluster<1, 1>>;
    /// # type Group = Warpgroup<Math, Cluster<1, 1>>;
    /// fn two(first: Slot, second: Slot, group: &Group) -> Accumulator<128> {
    ///     let mut sum = PromotedAccumulator::<2, 64>::start(group, first);
    ///     sum.next(|| second).release();
    ///     let (sum, second) = sum.finish::<128>();
    ///     second.release();
    ///     sum
    /// }
    /// ```
    #[device]
    pub fn finish<const N: usize>(mut self) -> (Accumulator<N>, RetiredSlot<St, Rd, Tag, Cl>)
    where
        M64<N>: Shape,
    {
        const { assert!(N == P * W, "the sums are those of all parts") }
        self.all_but_last();
        wait::<0, _, _>(self.group);
        let mut this = ManuallyDrop::new(self);
        let factors = this.factors;
        this.acc.promote::<Rd, St>(PromotedAccumulator::<P, W>::LAST, &factors);
        // SAFETY: no batch is in flight after the wait. `this` is never dropped, so the slot does not exist twice.
        let last = unsafe { core::ptr::read(&raw const this.slot).into_retired() };
        (joined::<N, W>(&this.acc.sums), last)
    }

    /// Ends all sums but those of the last part: returns the first `L` = (`P` - 1) * `W` columns. The last part is still being
    /// multiplied.
    ///
    /// Waits for the other parts. (PTX: as [`next`](Self::next).) See the example of [`PromotedAccumulator`].
    #[device]
    pub fn finish_left<const L: usize>(
        mut self,
    ) -> (Accumulator<L>, LastPart<'g, W, Rd, St, Tag, Cl>)
    where
        M64<L>: Shape,
    {
        const { assert!(L == (P - 1) * W, "the left columns are all but those of the last part") }
        self.all_but_last();
        let this = ManuallyDrop::new(self);
        let left = joined::<L, W>(&this.acc.sums[..P - 1]);
        let sums = this.acc.sums[P - 1];
        // SAFETY: `this` is never dropped, so the slot does not exist twice.
        let slot = unsafe { core::ptr::read(&raw const this.slot) };
        let part = this.acc.parts[1];
        let rest =
            LastPart { sums, part, slot, factors: this.factors, first: L, group: this.group };
        (left, rest)
    }
}

impl<const W: usize, Rd, St, Tag, Cl> LastPart<'_, W, Rd, St, Tag, Cl>
where
    M64<W>: Shape,
    Rd: MmaReaders,
    St: PromoteTiles<Rd>,
    Tag: Name,
    Cl: ClusterShape,
{
    /// Ends the accumulation: adds the last part, and returns the sums of its columns and the last slot.
    ///
    /// Waits for the part. (PTX `wgmma.wait_group 0`; CUTLASS `warpgroup_wait<0>`, `warpgroup_fence_operand`.) See the
    /// example of [`PromotedAccumulator`].
    #[device]
    pub fn finish(self) -> (Accumulator<W>, RetiredSlot<St, Rd, Tag, Cl>) {
        wait::<0, _, _>(self.group);
        let mut this = ManuallyDrop::new(self);
        let LastPart { sums, part, first, factors, .. } = &mut *this;
        add::<W, Rd, St>(sums, part, *first, factors);
        // SAFETY: no batch is in flight after the wait. `this` is never dropped, so the slot does not exist twice.
        let last = unsafe { core::ptr::read(&raw const this.slot).into_retired() };
        (Accumulator::from_regs(this.sums), last)
    }
}

/// Waits for parts that are dropped, so that they can't write registers that have been reused by then.
///
/// Their slot is lost, so the ring stops.
///
/// (PTX `wgmma.wait_group 0`; no instruction in code that finishes every accumulation.)
impl<const P: usize, const W: usize, Rd: MmaReaders, St: PromoteTiles<Rd>, Tag, Cl> Drop
    for PromotedInFlight<'_, P, W, Rd, St, Tag, Cl>
where
    M64<W>: Shape,
{
    #[device]
    fn drop(&mut self) {
        wait::<0, _, _>(self.group);
        for part in &mut self.acc.parts {
            M64::<W>::fence_operand(part);
        }
    }
}

/// As for [`PromotedInFlight`].
impl<const W: usize, Rd: MmaReaders, St: PromoteTiles<Rd>, Tag, Cl> Drop
    for LastPart<'_, W, Rd, St, Tag, Cl>
where
    M64<W>: Shape,
{
    #[device]
    fn drop(&mut self) {
        wait::<0, _, _>(self.group);
        M64::<W>::fence_operand(&mut self.part);
    }
}
