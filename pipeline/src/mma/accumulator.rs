//! Accumulators, and the wgmma batches that are in flight into them.
//!
//! Invariant: while a batch is in flight, [`InFlight`] owns the accumulator, so nothing can read
//! it, and the slot that the batch reads, so nothing can release it.
//!
//! [`InFlight::next`] keeps exactly one batch in flight. It issues the next batch, waits for the
//! older one (`wgmma.wait_group 1`), and returns the slot that the older one has finished reading.
//! [`InFlight::finish`] waits for all batches and returns the accumulator. Dropping an `InFlight`
//! also waits for all batches, but returns nothing.

use crate::cta::ClusterShape;
use crate::cta::Warpgroup;
use crate::ring::Stage;
use crate::ring::{FullSlot, MmaReaders, Name, RetiredSlot};
use crate::tile::{Element, ROW_BYTES, TILE_ALIGN, Tile, TileShape};
use core::mem::ManuallyDrop;
use isa::device;
use isa::wgmma::{KMajor, M64, Operand, Shape, Swizzle};

/// Rows that one wgmma of a warp group computes: the M of `wgmma.m64nNk16`.
pub const GROUP_ROWS: usize = 64;
/// K of one 16-bit wgmma: the columns of A and B that it reads.
const MMA_K: usize = 16;

/// A warp group's f32 accumulator in registers: `BLOCKS` blocks of 64 rows by `N` columns, one
/// below the other.
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
pub struct TallAccumulator<const N: usize, const BLOCKS: usize>
where
    M64<N>: Shape,
{
    regs: [<M64<N> as Shape>::Regs; BLOCKS],
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

/// A slot type whose two tiles are operands of wgmma, A and B.
///
/// The warp groups that share the slot split the rows of A equally, in order. Each multiplies its
/// rows by the transpose of B, or of some rows of B.
///
/// (PTX `wgmma.mma_async.sync.aligned.m64nNk16.f32`, BK / 16 times for each 64 rows; CUTLASS:
/// `TiledMma` over `GMMA::ss_op_selector`.)
///
/// ```
/// # use half::bf16;
/// # use warpipe_pipeline::{prelude::*, mma::MmaTiles};
/// fn columns<St: MmaTiles>() -> usize { St::COLUMNS }
/// assert_eq!(columns::<(Tile<bf16, 64, 64>, Tile<bf16, 128, 64>)>(), 128);
/// ```
#[diagnostic::on_unimplemented(
    message = "wgmma can't multiply the tiles of a slot of `{Self}`",
    label = "not the two operands of a product",
    note = "a slot that wgmma multiplies is a pair (A, B) of one element type, bf16 or f16, with equal columns: `(Tile<bf16, 64, 64>, Tile<bf16, 128, 64>)`"
)]
pub trait MmaTiles: Stage {
    /// Rows of the second tile (B), which are the columns of the product.
    const COLUMNS: usize;

    /// Issues the wgmmas of one slot for `N` columns of the product, from column `first` on, a
    /// multiple of 8. They add to `regs` only if `accumulate` is true.
    ///
    /// (PTX `wgmma.mma_async`, BK / 16 times for each block; CUTLASS `gemm`.) See the example of
    /// [`MmaTiles`].
    ///
    /// # Safety
    /// The four warps of the group are converged. The slot at `data` is full. `first` + `N` is at most
    /// [`COLUMNS`](Self::COLUMNS). `wgmma.fence` has been executed.
    unsafe fn issue<Rd: MmaReaders, const N: usize, const BLOCKS: usize>(
        data: u32,
        group: u32,
        first: usize,
        regs: &mut [<M64<N> as Shape>::Regs; BLOCKS],
        accumulate: bool,
    ) where
        M64<N>: Shape;
}

/// A slot type whose B has `N` rows, so that one `N`-column wgmma covers all columns of the
/// product.
///
/// (PTX and CUTLASS: as for [`MmaTiles`].)
///
/// ```
/// # use half::bf16;
/// # use warpipe_pipeline::{prelude::*, mma::MmaStage, ring::Stage};
/// fn bytes<St: MmaStage<128>>() -> usize { St::BYTES }
/// assert_eq!(bytes::<(Tile<bf16, 64, 64>, Tile<bf16, 128, 64>)>(), (64 + 128) * 128);
/// ```
#[diagnostic::on_unimplemented(
    message = "a slot of `{Self}` can't be multiplied into an accumulator of {N} columns",
    label = "not a pair of operands whose B has {N} rows",
    note = "a slot that wgmma multiplies is a pair (A, B) of one element type, bf16 or f16, with equal columns: `(Tile<bf16, 64, 64>, Tile<bf16, {N}, 64>)`",
    note = "the rows of B are the columns of the product: an `Accumulator<{N}>` needs a B of {N} rows"
)]
pub trait MmaStage<const N: usize>: MmaTiles {}
impl<E, const BM: usize, const N: usize, const BK: usize> MmaStage<N>
    for (Tile<E, BM, BK>, Tile<E, N, BK>)
where
    E: Element + Operand,
{
}

impl<E, const BM: usize, const BN: usize, const BK: usize> MmaTiles
    for (Tile<E, BM, BK>, Tile<E, BN, BK>)
where
    E: Element + Operand,
{
    const COLUMNS: usize = BN;

    #[device]
    unsafe fn issue<Rd: MmaReaders, const N: usize, const BLOCKS: usize>(
        data: u32,
        group: u32,
        first: usize,
        regs: &mut [<M64<N> as Shape>::Regs; BLOCKS],
        accumulate: bool,
    ) where
        M64<N>: Shape,
    {
        const {
            assert!(
                BM == GROUP_ROWS * Rd::GROUPS * BLOCKS,
                "the tile of A has the rows of the accumulators of all warp groups that read it: 64 for each block"
            );
        }
        let a = k_major(data + Rd::share(group) * (BLOCKS * GROUP_ROWS * ROW_BYTES) as u32);
        let b = data + <Tile<E, BM, BK> as TileShape>::BYTES as u32;
        let b = k_major(b + (first * ROW_BYTES) as u32);
        for k in 0..(BK / MMA_K) as u32 {
            let bytes = k * (MMA_K * E::SIZE) as u32;
            for (i, regs) in regs.iter_mut().enumerate() {
                let a = offset(a, (i * GROUP_ROWS * ROW_BYTES) as u32 + bytes);
                // SAFETY: the caller's contract.
                unsafe {
                    M64::<N>::mma::<E, KMajor, KMajor>(
                        regs,
                        a,
                        offset(b, bytes),
                        accumulate || k > 0,
                    )
                };
            }
        }
    }
}

/// Returns the descriptor of a K-major tile with the 128-byte swizzle. Atoms of 8 rows are 1024
/// bytes apart (the stride offset). The leading offset has no meaning, because a row is one atom
/// wide.
#[inline(always)]
fn k_major(addr: u32) -> u64 {
    isa::wgmma::descriptor(addr, 16, TILE_ALIGN as u32, Swizzle::B128)
}

/// Returns the descriptor of the address `bytes` further on. Shared memory ends below 2¹⁸, so the
/// address field can't overflow, and 32-bit arithmetic on the low half is enough.
#[inline(always)]
fn offset(descriptor: u64, bytes: u32) -> u64 {
    let (high, low) = (descriptor >> 32 << 32, descriptor as u32);
    high | (low + bytes / 16) as u64
}

/// An accumulator that a wgmma batch is writing, and the slot that the batch is reading.
///
/// [`next`](Self::next) and [`finish`](Self::finish) wait for the batch. (PTX: a `wgmma` group;
/// CUTLASS: a batch between `warpgroup_commit_batch` and `warpgroup_wait`.)
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
#[must_use = "a batch that is never finished keeps its slot: call `finish`"]
pub struct InFlight<'g, const N: usize, const BLOCKS: usize, Rd: MmaReaders, St, Tag, Cl>
where
    M64<N>: Shape,
{
    acc: TallAccumulator<N, BLOCKS>,
    slot: FullSlot<St, Rd, Tag, Cl>,
    group: &'g Warpgroup<Rd::Role, Cl>,
}

impl<const N: usize, const BLOCKS: usize> TallAccumulator<N, BLOCKS>
where
    M64<N>: Shape,
{
    /// Starts an accumulation: issues the products of the first slot and commits them as a wgmma
    /// group.
    ///
    /// The first wgmma computes D = A·B, so nothing needs zeroing.
    ///
    /// (PTX `wgmma.fence`, `wgmma.mma_async` BK / 16 times, `wgmma.commit_group`; CUTLASS
    /// `warpgroup_arrive`, `gemm` with `ScaleOut::Zero`, `warpgroup_commit_batch`.) See the example
    /// of [`Accumulator`].
    #[device]
    pub fn start<Rd, St, Tag, Cl>(
        group: &Warpgroup<Rd::Role, Cl>,
        slot: FullSlot<St, Rd, Tag, Cl>,
    ) -> InFlight<'_, N, BLOCKS, Rd, St, Tag, Cl>
    where
        Rd: MmaReaders,
        St: MmaStage<N>,
        Tag: Name,
        Cl: ClusterShape,
    {
        Self { regs: [<M64<N> as Shape>::ZERO; BLOCKS] }.issue(group, slot, false)
    }

    /// Continues a finished accumulation: issues the products of the next slot (D = A·B + D).
    ///
    /// It is for a ring of one stage, whose slot must be released before it can be filled again,
    /// and for accumulators that are read before the last slot.
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
    pub fn add<Rd, St, Tag, Cl>(
        self,
        group: &Warpgroup<Rd::Role, Cl>,
        slot: FullSlot<St, Rd, Tag, Cl>,
    ) -> InFlight<'_, N, BLOCKS, Rd, St, Tag, Cl>
    where
        Rd: MmaReaders,
        St: MmaStage<N>,
        Tag: Name,
        Cl: ClusterShape,
    {
        self.issue(group, slot, true)
    }

    #[device]
    fn issue<Rd, St, Tag, Cl>(
        mut self,
        group: &Warpgroup<Rd::Role, Cl>,
        slot: FullSlot<St, Rd, Tag, Cl>,
        accumulate: bool,
    ) -> InFlight<'_, N, BLOCKS, Rd, St, Tag, Cl>
    where
        Rd: MmaReaders,
        St: MmaStage<N>,
        Tag: Name,
        Cl: ClusterShape,
    {
        // SAFETY: the group token proves four converged warps, and the slot token proves that the
        // tiles have arrived. The slot and the registers stay inside `InFlight` until a wait.
        unsafe {
            isa::wgmma::fence();
            St::issue::<Rd, N, BLOCKS>(slot.data(), group.index(), 0, &mut self.regs, accumulate);
            isa::wgmma::commit_group();
        }
        InFlight { acc: self, slot, group }
    }

    /// Returns the blocks of 64 rows, from the top.
    ///
    /// (CUTLASS: slicing the accumulator fragment.) See the example of [`TallAccumulator`].
    #[inline(always)]
    pub fn blocks(self) -> [Accumulator<N>; BLOCKS] {
        self.regs.map(|regs| TallAccumulator { regs: [regs] })
    }
}

impl<const N: usize> Accumulator<N>
where
    M64<N>: Shape,
{
    /// Creates an accumulator from registers that a wgmma has written and a wait has retired.
    #[inline(always)]
    pub(crate) fn from_regs(regs: <M64<N> as Shape>::Regs) -> Self {
        Self { regs: [regs] }
    }

    /// Returns the registers.
    #[inline(always)]
    pub(crate) fn into_regs(self) -> <M64<N> as Shape>::Regs {
        let [regs] = self.regs;
        regs
    }

    /// Returns the 8 values that this thread holds of fragment number `fragment`: 64 rows by 16
    /// columns, of which each warp has 16 rows.
    ///
    /// For each of the fragment's two 8-column halves, the values are (row, col), (row, col + 1),
    /// (row + 8, col), (row + 8, col + 1), where row = lane / 4 within the warp's 16 rows and col =
    /// 2 (lane % 4). (PTX manual, "wgmma D fragment".)
    ///
    /// (CUTLASS: indexing the accumulator fragment.) See the example of [`Accumulator`].
    #[inline(always)]
    pub fn fragment(&self, fragment: usize) -> [f32; 8] {
        let regs = self.regs[0].as_ref();
        core::array::from_fn(|i| regs[8 * fragment + i])
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
    #[inline(always)]
    pub fn scale(&mut self, factor: f32) {
        #[allow(clippy::float_cmp)] // Only exactly 1 may skip the multiplication.
        if factor != 1.0 {
            for x in self.regs[0].as_mut() {
                *x *= factor;
            }
        }
    }

    /// Returns values 4i to 4i + 3 of this thread, in the order of the registers.
    #[inline(always)]
    pub(crate) fn quad(&self, i: usize) -> [f32; 4] {
        let regs = self.regs[0].as_ref();
        core::array::from_fn(|j| regs[4 * i + j])
    }

    /// Adds `quad` to values 4i to 4i + 3 of this thread.
    #[inline(always)]
    pub(crate) fn add_quad(&mut self, i: usize, quad: [f32; 4]) {
        let regs = self.regs[0].as_mut();
        for j in 0..4 {
            regs[4 * i + j] += quad[j];
        }
    }
}

impl<const N: usize, const BLOCKS: usize, Rd, St, Tag, Cl> InFlight<'_, N, BLOCKS, Rd, St, Tag, Cl>
where
    M64<N>: Shape,
    Rd: MmaReaders,
    St: MmaStage<N>,
    Tag: Name,
    Cl: ClusterShape,
{
    /// Issues the products of `slot` after the batch in flight, and returns the slot that the older
    /// batch has finished reading.
    ///
    /// Waits for the older batch. (PTX `wgmma.fence`, `wgmma.mma_async` BK / 16 times,
    /// `wgmma.commit_group`, `wgmma.wait_group 1`; CUTLASS `warpgroup_arrive`, `gemm`,
    /// `warpgroup_commit_batch`, `warpgroup_wait<1>`.) See the example of [`InFlight`].
    #[device]
    pub fn next(&mut self, slot: FullSlot<St, Rd, Tag, Cl>) -> RetiredSlot<St, Tag, Cl> {
        // SAFETY: as in `TallAccumulator::issue`. After the wait only the batch just committed can
        // be in flight, so nothing reads the older slot any more.
        unsafe {
            isa::wgmma::fence();
            St::issue::<Rd, N, BLOCKS>(
                slot.data(),
                self.group.index(),
                0,
                &mut self.acc.regs,
                true,
            );
            isa::wgmma::commit_group();
            isa::wgmma::wait_group::<1>();
            core::mem::replace(&mut self.slot, slot).retired()
        }
    }

    /// Issues the products of the same slot once more, after the batch in flight.
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
        let (data, group) = (self.slot.data(), self.group.index());
        // SAFETY: as in `TallAccumulator::issue`; the slot stays in `self` until a wait.
        unsafe {
            isa::wgmma::fence();
            St::issue::<Rd, N, BLOCKS>(data, group, 0, &mut self.acc.regs, true);
            isa::wgmma::commit_group();
            isa::wgmma::wait_group::<1>();
        }
    }

    /// Ends the accumulation: returns the accumulator and the last slot.
    ///
    /// Waits for the batch in flight. (PTX `wgmma.wait_group 0`; CUTLASS `warpgroup_wait<0>`,
    /// `warpgroup_fence_operand`.) See the example of [`InFlight`].
    #[device]
    pub fn finish(self) -> (TallAccumulator<N, BLOCKS>, RetiredSlot<St, Tag, Cl>) {
        let mut this = ManuallyDrop::new(self);
        this.retire();
        // SAFETY: no batch is in flight after the wait. `this` is never dropped, so nothing is
        // dropped twice.
        unsafe {
            (core::ptr::read(&raw const this.acc), core::ptr::read(&raw const this.slot).retired())
        }
    }
}

impl<const N: usize, const BLOCKS: usize, Rd: MmaReaders, St, Tag, Cl>
    InFlight<'_, N, BLOCKS, Rd, St, Tag, Cl>
where
    M64<N>: Shape,
{
    /// Waits for all batches, and keeps later uses of the accumulator after the wait.
    #[device]
    fn retire(&mut self) {
        // SAFETY: the group token proves four converged warps.
        unsafe { isa::wgmma::wait_group::<0>() };
        // To the compiler the registers have had their values since the wgmma was issued. The fence
        // keeps it from moving their first use above the wait (CUTLASS `warpgroup_fence_operand`).
        for regs in &mut self.acc.regs {
            M64::<N>::fence_operand(regs);
        }
    }
}

/// Waits for a batch that is dropped, so that it can't write registers that have been reused by
/// then.
///
/// Its slot is lost, so the ring stops.
///
/// (PTX `wgmma.wait_group 0`; no instruction in code that finishes every batch.)
impl<const N: usize, const BLOCKS: usize, Rd: MmaReaders, St, Tag, Cl> Drop
    for InFlight<'_, N, BLOCKS, Rd, St, Tag, Cl>
where
    M64<N>: Shape,
{
    #[device]
    fn drop(&mut self) {
        self.retire();
    }
}
