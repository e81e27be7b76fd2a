//! Accumulators, and the batches of wgmmas that are in flight into them.
//!
//! Invariant: while a batch is in flight, [`InFlight`] owns the accumulator, so nothing can read
//! it, and the operands, so nothing can release or change them.
//!
//! [`InFlight::next`] keeps exactly one batch in flight. It issues the next batch, waits for the
//! older one (`wgmma.wait_group 1`), and returns the slot that the older one has finished reading.
//! [`InFlight::then_add`] puts a second accumulator in flight behind the first.
//! [`InFlight::finish`] waits for the batch and returns the accumulator. Dropping an `InFlight`
//! also waits, but returns nothing.

use crate::cta::{ClusterShape, Role, Warpgroup};
use crate::mma::a_fragment::{AFragment, AShape, Pack};
use crate::mma::operand::Operands;
use core::mem::ManuallyDrop;
use isa::device;
use isa::wgmma::{M64, Shape};

/// A warp group's accumulator in registers: `BLOCKS` blocks of 64 rows by `N` columns, one below the
/// other. The sums are f32, or i32 for products of `i8`.
///
/// One block is an [`Accumulator`]. Several blocks multiply the same tile of B.
///
/// (PTX: the D registers of `wgmma.mma_async`; CUTLASS: `partition_fragment_C`, whose second mode,
/// `MMA_M`, counts the blocks.)
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{mma::*, prelude::*, ring::*}};
/// # names! { Main = "main loop" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Panel = Tile<bf16, 128, 64>; type Alone = Cluster<1, 1>;
///
/// # type Operands = (Panel, Panel);
/// /// The 128 rows of a tile that is one warp group's own.
/// fn sum(mut full: Consumer<4, Operands, MmaInTurn<Math>, Main, Alone>, group: &Warpgroup<Math, Alone>) {
///     let (sum, last) = TallAccumulator::<128, 2>::start(group, full.wait()).finish();
///     last.release();
///     let [_upper, _lower]: [Accumulator<128>; 2] = sum.blocks();
/// }
/// ```
pub struct TallAccumulator<const N: usize, const BLOCKS: usize, S = f32>
where
    M64<N>: Shape<S>,
{
    regs: [<M64<N> as Shape<S>>::Regs; BLOCKS],
}

/// A warp group's 64 x `N` f32 accumulator, in registers.
///
/// (PTX: the D registers of `wgmma.mma_async`; CUTLASS `partition_fragment_C`.)
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{prelude::*, ring::*}};
/// # names! { Main = "main loop" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Panel = Tile<bf16, 128, 64>; type Alone = Cluster<1, 1>;
///
/// # type Operands = (Panel, Panel);
/// fn sum(mut full: Consumer<4, Operands, Mma<Math>, Main, Alone>, group: &Warpgroup<Math, Alone>) {
///     let mut sum = Accumulator::<128>::start(group, full.wait());
///     for _k in 1..9 {
///         sum.next(full.wait()).release();
///     }
///     let (sum, last) = sum.finish();
///     last.release();
///     let _sixteen_columns: [f32; 8] = sum.fragment(0);
/// }
/// ```
pub type Accumulator<const N: usize> = TallAccumulator<N, 1>;

/// A warp group's 64 x `N` accumulator of i32, in registers: exact sums of products of `i8`, which wrap around.
///
/// `N` is 8, 16, 24, 32, or a multiple of 16 from 48 to 256. [`to_f32`](Self::to_f32) makes an
/// [`Accumulator`] of it.
///
/// (PTX: the D registers of `wgmma.mma_async…s32.s8.s8`; CUTLASS: `partition_fragment_C` with
/// `int32_t`.)
///
/// ```
/// # use warpipe_pipeline::{mma::IntAccumulator, prelude::*, ring::*};
/// # names! { Main = "main loop" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Alone = Cluster<1, 1>;
/// # type Slot = FullSlot<(Tile<i8, 128, 128>, Tile<i8, 96, 128>), Mma<Math>, Main, Alone>;
/// fn product(slot: Slot, group: &Warpgroup<Math, Alone>, scale: f32) -> Accumulator<96> {
///     let (sum, slot) = IntAccumulator::<96>::start(group, slot).finish();
///     slot.release();
///     let mut sum = sum.to_f32();
///     sum.scale(scale);
///     sum
/// }
/// ```
pub type IntAccumulator<const N: usize> = TallAccumulator<N, 1, i32>;

/// An accumulator that a batch of wgmmas is writing, and the operands that the batch is reading.
///
/// [`next`](Self::next) and [`finish`](Self::finish) wait for the batch. (PTX: a `wgmma` group;
/// CUTLASS: a batch between `warpgroup_commit_batch` and `warpgroup_wait`.)
///
/// `NEWER` is a number of batches of other accumulators that were committed after this one. Groups
/// of wgmmas retire in the order in which they were committed, so a wait for this batch may leave
/// that many in flight.
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{prelude::*, ring::*}};
/// # names! { Main = "main loop" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Panel = Tile<bf16, 128, 64>; type Alone = Cluster<1, 1>;
///
/// # type Operands = (Panel, Panel);
/// # type Slot = FullSlot<Operands, Mma<Math>, Main, Alone>;
/// fn two(first: Slot, second: Slot, group: &Warpgroup<Math, Alone>) -> Accumulator<128> {
///     let mut batch = Accumulator::<128>::start(group, first);
///     batch.next(second).release();
///     let (sum, second) = batch.finish();
///     second.release();
///     sum
/// }
/// ```
#[must_use = "a batch that is never finished keeps its slots: call `finish`"]
pub struct InFlight<
    'g,
    const N: usize,
    const BLOCKS: usize,
    Op,
    Ro,
    Cl,
    const NEWER: u32 = 0,
    S = f32,
> where
    M64<N>: Shape<S>,
{
    acc: TallAccumulator<N, BLOCKS, S>,
    operands: Op,
    group: &'g Warpgroup<Ro, Cl>,
}

impl<const N: usize, const BLOCKS: usize, S> TallAccumulator<N, BLOCKS, S>
where
    M64<N>: Shape<S>,
{
    /// Returns an accumulator of zeros, to be added to.
    ///
    /// [`start`](Self::start) needs none. Zeros are for a loop whose first batch is like the others.
    /// ptxas knows them: the first wgmma does not read them.
    ///
    /// (CUTLASS `clear(accum)`.)
    ///
    /// ```
    /// # use warpipe_pipeline::prelude::*;
    /// assert_eq!(Accumulator::<64>::zeros().fragment(3), [0.0; 8]);
    /// ```
    #[isa::forceinline]
    #[must_use]
    pub fn zeros() -> Self {
        Self { regs: [<M64<N> as Shape<S>>::ZERO; BLOCKS] }
    }

    /// Starts an accumulation: issues the products of the first operands and commits them as a
    /// wgmma group.
    ///
    /// The first wgmma computes D = A·B, so nothing needs zeroing.
    ///
    /// (PTX `wgmma.fence`, `wgmma.mma_async` BK / 16 times, `wgmma.commit_group`; CUTLASS
    /// `warpgroup_arrive`, `gemm` with `ScaleOut::Zero`, `warpgroup_commit_batch`.) See the example
    /// of [`Accumulator`].
    #[device]
    pub fn start<Op, Ro, Cl>(
        group: &Warpgroup<Ro, Cl>,
        operands: Op,
    ) -> InFlight<'_, N, BLOCKS, Op, Ro, Cl, 0, S>
    where
        Op: Operands<N, BLOCKS, S, Role = Ro, Cluster = Cl>,
        Ro: Role,
        Cl: ClusterShape,
    {
        Self::zeros().issue(group, operands, false)
    }

    /// Continues a finished accumulation: issues the products of the next operands (D = A·B + D).
    ///
    /// It is for a ring of one stage, whose slot must be released before it can be filled again,
    /// and for accumulators that are read or changed before the last operands.
    ///
    /// (PTX: as [`start`](Self::start); CUTLASS `warpgroup_arrive`, `gemm`,
    /// `warpgroup_commit_batch`.)
    ///
    /// ```
    /// # use {half::bf16, warpipe_pipeline::{prelude::*, ring::*}};
    /// # names! { Main = "main loop" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
    /// # type Panel = Tile<bf16, 128, 64>; type Alone = Cluster<1, 1>;
    ///
    /// # type Operands = (Panel, Panel);
    /// fn once(mut full: Consumer<1, Operands, Mma<Math>, Main, Alone>, group: &Warpgroup<Math, Alone>) {
    ///     let (sum, slot) = Accumulator::<128>::start(group, full.wait()).finish();
    ///     slot.release();
    ///     let (_sum, slot) = sum.add(group, full.wait()).finish();
    ///     slot.release();
    /// }
    /// ```
    #[device]
    pub fn add<Op, Ro, Cl>(
        self,
        group: &Warpgroup<Ro, Cl>,
        operands: Op,
    ) -> InFlight<'_, N, BLOCKS, Op, Ro, Cl, 0, S>
    where
        Op: Operands<N, BLOCKS, S, Role = Ro, Cluster = Cl>,
        Ro: Role,
        Cl: ClusterShape,
    {
        self.issue(group, operands, true)
    }

    #[device]
    fn issue<Op, Ro, Cl, const NEWER: u32>(
        self,
        group: &Warpgroup<Ro, Cl>,
        operands: Op,
        accumulate: bool,
    ) -> InFlight<'_, N, BLOCKS, Op, Ro, Cl, NEWER, S>
    where
        Op: Operands<N, BLOCKS, S, Role = Ro, Cluster = Cl>,
        Ro: Role,
        Cl: ClusterShape,
    {
        let mut batch = InFlight { acc: self, operands, group };
        // SAFETY: the group token proves four converged warps. The operands and the registers stay
        // inside `InFlight` until a wait.
        unsafe {
            isa::wgmma::fence();
            batch.operands.issue(group.index(), &mut batch.acc.regs, accumulate);
            isa::wgmma::commit_group();
        }
        batch
    }

    /// Returns the blocks of 64 rows, from the top.
    ///
    /// (CUTLASS: slicing the accumulator fragment.) See the example of [`TallAccumulator`].
    #[isa::forceinline]
    pub fn blocks(self) -> [TallAccumulator<N, 1, S>; BLOCKS] {
        self.regs.map(|regs| TallAccumulator { regs: [regs] })
    }
}

impl<const N: usize, S: Copy> TallAccumulator<N, 1, S>
where
    M64<N>: Shape<S>,
{
    /// Returns this thread's 8 values of fragment number `fragment`, below `N` / 16: [`fragment_at`](Self::fragment_at) of
    /// column 16 `fragment`.
    ///
    /// (CUTLASS: indexing the accumulator fragment.) See the example of [`Accumulator`].
    #[isa::forceinline]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn fragment(&self, fragment: usize) -> [S; 8] {
        self.fragment_at(16 * fragment)
    }

    /// Returns this thread's 8 values of the fragment that begins at `column`, a multiple of 8 up to `N` - 16. A fragment has
    /// 64 rows, 16 per warp, and 16 columns.
    ///
    /// For each of the fragment's two 8-column halves, the values are (row, col), (row, col + 1),
    /// (row + 8, col), (row + 8, col + 1), where row = lane / 4 within the warp's 16 rows and col =
    /// 2 (lane % 4). On the model, another column is an error at the kernel's line. (PTX manual, "wgmma D fragment".)
    ///
    /// (CUTLASS: indexing the accumulator fragment.)
    ///
    /// ```
    /// # use warpipe_pipeline::prelude::*;
    /// /// The last 16 of 72 columns.
    /// fn last(sum: &Accumulator<72>) -> [f32; 8] {
    ///     sum.fragment_at(56)
    /// }
    /// # assert_eq!(last(&Accumulator::zeros()), [0.0; 8]);
    /// ```
    #[isa::forceinline]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn fragment_at(&self, column: usize) -> [S; 8] {
        #[cfg(not(target_arch = "nvptx64"))]
        assert!(
            column.is_multiple_of(8) && column + 16 <= N,
            "a fragment of {N} columns begins at a multiple of 8 up to {N} - 16, not at {column}"
        );
        let regs = self.regs[0].as_ref();
        core::array::from_fn(|i| regs[column / 8 * 4 + i])
    }
}

impl<const N: usize> IntAccumulator<N>
where
    M64<N>: Shape<i32> + Shape,
{
    /// Converts the sums to f32, rounded to nearest even: exact up to 2²⁴.
    ///
    /// (PTX `cvt.rn.f32.s32` for each value; CUTLASS `NumericArrayConverter`.) See the example of
    /// [`IntAccumulator`].
    #[isa::forceinline]
    pub fn to_f32(&self) -> Accumulator<N> {
        let mut regs = <M64<N> as Shape>::ZERO;
        for (to, from) in regs.as_mut().iter_mut().zip(self.regs[0].as_ref()) {
            *to = *from as f32;
        }
        Accumulator::from_regs(regs)
    }
}

impl<const N: usize> Accumulator<N>
where
    M64<N>: Shape,
{
    /// Creates an accumulator from registers that a wgmma has written and a wait has retired.
    #[isa::forceinline]
    pub(crate) fn from_regs(regs: <M64<N> as Shape>::Regs) -> Self {
        Self { regs: [regs] }
    }

    /// Returns this thread's values, in the order of the registers: fragment by fragment.
    #[isa::forceinline]
    pub(crate) fn values(&self) -> &[f32] {
        self.regs[0].as_ref()
    }

    /// Returns this thread's values, to be changed.
    #[isa::forceinline]
    pub(crate) fn values_mut(&mut self) -> &mut [f32] {
        self.regs[0].as_mut()
    }

    /// Returns the registers.
    #[isa::forceinline]
    pub(crate) fn into_regs(self) -> <M64<N> as Shape>::Regs {
        let [regs] = self.regs;
        regs
    }

    /// Rounds the sums to `E`, as an operand A of 64 rows and `N` columns.
    ///
    /// No value moves: the layouts of accumulators and of A are the same for each 16 columns.
    ///
    /// (PTX `cvt.rn.bf16x2.f32`; CUTLASS `convert_type`, `convert_layout_acc_Aregs`.) See the
    /// example of [`AFragment`].
    #[isa::forceinline]
    pub fn to_a<E: Pack>(&self) -> AFragment<E, N>
    where
        M64<N>: AShape,
    {
        AFragment::pack(self.values())
    }

    /// Multiplies the accumulator by `factor`. A factor of 1 costs only a branch.
    ///
    /// (PTX `mul.f32` for each value; CUTLASS: the `alpha` of `LinearCombination`.)
    ///
    /// ```
    /// # use warpipe_pipeline::prelude::*;
    /// fn half(mut sum: Accumulator<64>) -> Accumulator<64> {
    ///     sum.scale(0.5);
    ///     sum
    /// }
    /// ```
    #[isa::forceinline]
    pub fn scale(&mut self, factor: f32) {
        #[allow(clippy::float_cmp)] // Only exactly 1 may skip the multiplication.
        if factor != 1.0 {
            for x in self.regs[0].as_mut() {
                *x *= factor;
            }
        }
    }

    /// Returns values 4i to 4i + 3 of this thread, in the order of the registers.
    #[isa::forceinline]
    pub(crate) fn quad(&self, i: usize) -> [f32; 4] {
        let regs = self.regs[0].as_ref();
        core::array::from_fn(|j| regs[4 * i + j])
    }

    /// Adds `pair`, times `by`, to values 2i and 2i + 1 of this thread.
    #[isa::forceinline]
    pub(crate) fn fma_pair(&mut self, i: usize, pair: [f32; 2], by: f32) {
        let regs = self.regs[0].as_mut();
        for j in 0..2 {
            regs[2 * i + j] = isa::math::fma(pair[j], by, regs[2 * i + j]);
        }
    }

    /// Adds `quad` to values 4i to 4i + 3 of this thread.
    #[isa::forceinline]
    pub(crate) fn add_quad(&mut self, i: usize, quad: [f32; 4]) {
        let regs = self.regs[0].as_mut();
        for j in 0..4 {
            regs[4 * i + j] += quad[j];
        }
    }
}

impl<'g, const N: usize, const BLOCKS: usize, Op, Ro, Cl, S>
    InFlight<'g, N, BLOCKS, Op, Ro, Cl, 0, S>
where
    M64<N>: Shape<S>,
    Op: Operands<N, BLOCKS, S, Role = Ro, Cluster = Cl>,
    Ro: Role,
    Cl: ClusterShape,
{
    /// Issues the products of `operands` after the batch in flight, and returns what the older batch
    /// has finished reading.
    ///
    /// Waits for the older batch. (PTX `wgmma.fence`, `wgmma.mma_async` BK / 16 times,
    /// `wgmma.commit_group`, `wgmma.wait_group 1`; CUTLASS `warpgroup_arrive`, `gemm`,
    /// `warpgroup_commit_batch`, `warpgroup_wait<1>`.) See the example of [`InFlight`].
    #[device]
    pub fn next(&mut self, operands: Op) -> Op::Retired {
        let older = core::mem::replace(&mut self.operands, operands);
        // SAFETY: as in `TallAccumulator::issue`. After the wait only the batch just committed can
        // be in flight, so nothing reads the older operands any more.
        unsafe {
            isa::wgmma::fence();
            self.operands.issue(self.group.index(), &mut self.acc.regs, true);
            isa::wgmma::commit_group();
            isa::wgmma::wait_group::<1>();
            older.retired()
        }
    }

    /// Issues the products of the same operands once more, after the batch in flight.
    ///
    /// Waits for the older batch. (PTX and CUTLASS: as for [`next`](Self::next).)
    ///
    /// ```
    /// # use {half::bf16, warpipe_pipeline::{prelude::*, ring::*}};
    /// # names! { Main = "main loop" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
    /// # type Panel = Tile<bf16, 128, 64>; type Alone = Cluster<1, 1>;
    ///
    /// # type Operands = (Panel, Panel);
    /// # type Slot = FullSlot<Operands, Mma<Math>, Main, Alone>;
    /// fn twice(slot: Slot, group: &Warpgroup<Math, Alone>) -> Accumulator<128> {
    ///     let mut batch = Accumulator::<128>::start(group, slot);
    ///     batch.again();
    ///     let (sum, slot) = batch.finish();
    ///     slot.release();
    ///     sum
    /// }
    /// ```
    #[device]
    pub fn again(&mut self) {
        // SAFETY: as in `TallAccumulator::issue`; the operands stay in `self` until a wait.
        unsafe {
            isa::wgmma::fence();
            self.operands.issue(self.group.index(), &mut self.acc.regs, true);
            isa::wgmma::commit_group();
            isa::wgmma::wait_group::<1>();
        }
    }

    /// Issues a batch into a second accumulator, behind the one in flight (D = A·B + D).
    ///
    /// Both are then in flight, and they retire in order: [`finish`](InFlight::finish) of the first
    /// leaves the second one in flight. Between the two waits, work on the first accumulator
    /// overlaps the second product. So attention multiplies the next scores and the previous
    /// weights at the same time.
    ///
    /// (PTX `wgmma.fence`, `wgmma.mma_async`, `wgmma.commit_group`; CUTLASS: two `gemm`s with a
    /// `warpgroup_commit_batch` each, then `warpgroup_wait<1>`.)
    ///
    /// ```
    /// # use {half::bf16, warpipe_pipeline::{mma::AFragment, prelude::*, ring::*, tile::MnMajor}};
    /// # names! { Main = "main loop", Values = "V" }
    /// # roles! { Load = 1 x 24 registers, Math = 1 x 240 registers } type Alone = Cluster<1, 1>;
    /// # type Panel = Tile<bf16, 64, 64>;
    /// # type QK = FullSlot<(Panel, Panel), Mma<Math>, Main, Alone>;
    /// # type V = FullSlot<(Tile<bf16, 128, 64, MnMajor>,), Mma<Math>, Values, Alone>;
    /// # type Group = Warpgroup<Math, Alone>;
    /// /// The next scores, while the weights `p` of the previous ones are multiplied.
    /// fn step(group: &Group, qk: QK, p: AFragment<bf16, 64>, v: V, sum: Accumulator<128>) {
    ///     let scores = Accumulator::<64>::start(group, qk);
    ///     let (scores, sum) = scores.then_add(sum, (p, v));
    ///     let (_scores, qk) = scores.finish(); // `sum` is still in flight
    ///     qk.release();
    ///     let (_sum, v) = sum.finish();
    ///     v.release();
    /// }
    /// ```
    #[device]
    #[allow(clippy::type_complexity)] // Both batches, in the order in which they retire.
    pub fn then_add<const M: usize, const B: usize, Next>(
        self,
        sum: TallAccumulator<M, B, S>,
        operands: Next,
    ) -> (InFlight<'g, N, BLOCKS, Op, Ro, Cl, 1, S>, InFlight<'g, M, B, Next, Ro, Cl, 0, S>)
    where
        M64<M>: Shape<S>,
        Next: Operands<M, B, S, Role = Ro, Cluster = Cl>,
    {
        let group = self.group;
        let second = sum.issue(group, operands, true);
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is never dropped, so no value exists twice.
        let (acc, operands) = unsafe {
            (core::ptr::read(&raw const this.acc), core::ptr::read(&raw const this.operands))
        };
        (InFlight { acc, operands, group }, second)
    }
}

impl<const N: usize, const BLOCKS: usize, Op, Ro, Cl, const NEWER: u32, S>
    InFlight<'_, N, BLOCKS, Op, Ro, Cl, NEWER, S>
where
    M64<N>: Shape<S>,
    Op: Operands<N, BLOCKS, S>,
{
    /// Ends the accumulation: returns the accumulator and what the last batch has finished reading.
    ///
    /// Waits for the batch, and leaves the `NEWER` batches behind it in flight. (PTX
    /// `wgmma.wait_group`; CUTLASS `warpgroup_wait`, `warpgroup_fence_operand`.) See the examples of
    /// [`InFlight`] and [`then_add`](InFlight::then_add).
    #[device]
    pub fn finish(self) -> (TallAccumulator<N, BLOCKS, S>, Op::Retired) {
        // SAFETY: as in `retire`.
        unsafe { isa::wgmma::wait_group::<NEWER>() };
        self.waited()
    }

    /// Ends the accumulation, as [`finish`](Self::finish) does, but does not wait before `known` is computed.
    ///
    /// Arithmetic that is to overlap the batch comes before this call, and `known` is a result of it. ptxas moves
    /// arithmetic behind a plain wait. Give a value that is not negative. A negative one is right too, but costs a load of
    /// shared memory.
    ///
    /// Waits for the batch, and leaves the `NEWER` batches behind it in flight. (PTX `wgmma.wait_group`; CUTLASS
    /// `warpgroup_wait`.)
    ///
    /// ```
    /// # use {half::bf16, warpipe_pipeline::{mma::InFlight, prelude::*, ring::*}};
    /// # names! { Main = "main loop" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
    /// # type Panel = Tile<bf16, 128, 64>; type Alone = Cluster<1, 1>;
    /// # type Slot = FullSlot<(Panel, Panel), Mma<Math>, Main, Alone>;
    /// # type Group = Warpgroup<Math, Alone>;
    /// /// The maximum of other sums, while the batch is in flight.
    /// fn overlap(group: &Group, other: &Accumulator<64>, slot: Slot) -> Accumulator<128> {
    ///     let batch = Accumulator::<128>::start(group, slot);
    ///     let max = group.row_max(other.row_max());
    ///     let (sum, slot) = batch.finish_after(max.0[0].abs() + max.0[1].abs());
    ///     slot.release();
    ///     sum
    /// }
    /// ```
    #[device]
    pub fn finish_after(self, known: f32) -> (TallAccumulator<N, BLOCKS, S>, Op::Retired) {
        // SAFETY: as in `retire`; the slots of the batch lie in shared memory.
        unsafe { isa::wgmma::wait_group_after::<NEWER>(known) };
        self.waited()
    }

    /// Takes the batch apart after the wait.
    #[isa::forceinline]
    fn waited(self) -> (TallAccumulator<N, BLOCKS, S>, Op::Retired) {
        let mut this = ManuallyDrop::new(self);
        this.fence();
        // SAFETY: the batch is not in flight after the wait. `this` is never dropped, so nothing is
        // dropped twice.
        unsafe {
            (
                core::ptr::read(&raw const this.acc),
                core::ptr::read(&raw const this.operands).retired(),
            )
        }
    }
}

impl<const N: usize, const BLOCKS: usize, Op, Ro, Cl, const NEWER: u32, S>
    InFlight<'_, N, BLOCKS, Op, Ro, Cl, NEWER, S>
where
    M64<N>: Shape<S>,
{
    /// Waits for this batch, and keeps later uses of the accumulator after the wait.
    #[device]
    fn retire(&mut self) {
        // SAFETY: the group token proves four converged warps. At least `NEWER` batches were
        // committed after this one, so that it is not among the last `NEWER`.
        unsafe { isa::wgmma::wait_group::<NEWER>() };
        self.fence();
    }

    /// Keeps later uses of the accumulator after the wait.
    #[isa::forceinline]
    fn fence(&mut self) {
        // To the compiler the registers have had their values since the wgmma was issued. The fence
        // keeps it from moving their first use above the wait (CUTLASS `warpgroup_fence_operand`).
        for regs in &mut self.acc.regs {
            <M64<N> as Shape<S>>::fence_operand(regs);
        }
    }
}

/// Waits for a batch that is dropped, so that it can't write registers that have been reused by
/// then.
///
/// Its slots are lost, so their rings stop.
///
/// (PTX `wgmma.wait_group`; no instruction in code that finishes every batch.)
impl<const N: usize, const BLOCKS: usize, Op, Ro, Cl, const NEWER: u32, S> Drop
    for InFlight<'_, N, BLOCKS, Op, Ro, Cl, NEWER, S>
where
    M64<N>: Shape<S>,
{
    #[device]
    fn drop(&mut self) {
        self.retire();
    }
}
