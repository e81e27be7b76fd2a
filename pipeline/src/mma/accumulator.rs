//! Accumulators, and the wgmma batches that are in flight into them.
//!
//! The states of an accumulation are types. While a batch is in flight the accumulator lies inside
//! [`InFlight`], where nothing can read it, together with the slot that the batch still reads,
//! which nothing can release. [`InFlight::next`] keeps exactly one batch in flight: it issues the
//! next one, waits for the older one (`wgmma.wait_group 1`), and hands out the slot that this
//! retired. [`InFlight::finish`] waits for all and gives the accumulator; so does a drop, which gives
//! nothing.

use crate::cta::ClusterShape;
use crate::cta::Warpgroup;
use crate::ring::Stage;
use crate::ring::{FullSlot, MmaReaders, Name, RetiredSlot};
use crate::tile::{Element, ROW_BYTES, TILE_ALIGN, Tile, TileShape};
use core::mem::ManuallyDrop;
use isa::device;
use isa::wgmma::{M64, Operand, Shape, Swizzle};

/// Rows that one warp group multiplies: the M of `wgmma.m64nNk16`.
pub const GROUP_ROWS: usize = 64;
/// Columns of A and B that one 16-bit wgmma reads.
const MMA_K: usize = 16;

/// A warp group's f32 sums, in registers: `BLOCKS` blocks of 64 rows by `N` columns, one below the
/// other. One block is an [`Accumulator`]; more of them share what is read of B.
///
/// (PTX: the D registers of `wgmma.mma_async`; CUTLASS `partition_fragment_C`, whose second mode,
/// `MMA_M`, counts the blocks.)
///
/// ```
/// # use {half::bf16, pipeline::{mma::*, prelude::*, ring::*}};
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

/// A warp group's 64 x `N` block of f32 sums, in registers.
///
/// (PTX: the D registers of `wgmma.mma_async`; CUTLASS `partition_fragment_C`.)
///
/// ```
/// # use {half::bf16, pipeline::{prelude::*, ring::*}};
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

/// A stage whose tiles are operands of wgmma: the warp groups that share the slot multiply equal parts
/// of the first tile's rows, in order, with the transpose of the second, or of some rows of it.
///
/// (PTX `wgmma.mma_async.sync.aligned.m64nNk16.f32`, BK / 16 times for each 64 rows; CUTLASS
/// `TiledMma` over `GMMA::ss_op_selector`.)
///
/// ```
/// # use half::bf16;
/// # use pipeline::{prelude::*, mma::MmaTiles};
/// fn columns<St: MmaTiles>() -> usize { St::COLUMNS }
/// assert_eq!(columns::<(Tile<bf16, 64, 64>, Tile<bf16, 128, 64>)>(), 128);
/// ```
pub trait MmaTiles: Stage {
    /// Rows of the second tile: columns of the product.
    const COLUMNS: usize;

    /// Issues the wgmmas of one stage for `N` columns from column `first` on, a multiple of 8. They add
    /// to `regs` only if `accumulate`.
    ///
    /// (PTX `wgmma.mma_async`, BK / 16 times a block; CUTLASS `gemm`.) See the example of
    /// [`MmaTiles`].
    ///
    /// # Safety
    /// Four converged warps; the slot at `data` is full; `first` + `N` is at most
    /// [`COLUMNS`](Self::COLUMNS); `wgmma.fence` has been executed.
    unsafe fn issue<Rd: MmaReaders, const N: usize, const BLOCKS: usize>(
        data: u32,
        group: u32,
        first: usize,
        regs: &mut [<M64<N> as Shape>::Regs; BLOCKS],
        accumulate: bool,
    ) where
        M64<N>: Shape;
}

/// A stage of which `N`-column wgmmas multiply all columns at once.
///
/// (PTX: as [`MmaTiles`]; CUTLASS: as for it.)
///
/// ```
/// # use half::bf16;
/// # use pipeline::{prelude::*, mma::MmaStage, ring::Stage};
/// fn bytes<St: MmaStage<128>>() -> usize { St::BYTES }
/// assert_eq!(bytes::<(Tile<bf16, 64, 64>, Tile<bf16, 128, 64>)>(), (64 + 128) * 128);
/// ```
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
                let a = ahead(a, (i * GROUP_ROWS * ROW_BYTES) as u32 + bytes);
                // SAFETY: the caller's contract.
                unsafe { M64::<N>::mma::<E>(regs, a, ahead(b, bytes), accumulate || k > 0) };
            }
        }
    }
}

/// Descriptor of a K-major tile with the 128-byte swizzle: atoms of 8 rows lie 1024 bytes apart;
/// the leading offset has no meaning for one atom of columns.
#[inline(always)]
fn k_major(addr: u32) -> u64 {
    isa::wgmma::descriptor(addr, 16, TILE_ALIGN as u32, Swizzle::B128)
}

/// The descriptor of what lies `bytes` further. Shared memory ends below 2¹⁸, so the address field
/// can't overflow, and 32-bit arithmetic on the low half does.
#[inline(always)]
fn ahead(descriptor: u64, bytes: u32) -> u64 {
    let (high, low) = (descriptor >> 32 << 32, descriptor as u32);
    high | (low + bytes / 16) as u64
}

/// An accumulator that a wgmma batch is writing, and the slot that the batch is reading.
///
/// Waits for its batch, when it is asked for the next one or finished. (PTX: a `wgmma` group;
/// CUTLASS: the batch between `warpgroup_commit_batch` and `warpgroup_wait`.)
///
/// ```
/// # use {half::bf16, pipeline::{prelude::*, ring::*}};
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
#[must_use = "a batch that is never finished keeps its slot"]
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
    /// Starts a sum: issues the products of the first slot (D = A·B, so nothing needs zeroing) and
    /// commits them as a wgmma group.
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

    /// Goes on with a finished sum: issues the products of the next slot (D = A·B + D). For a ring
    /// of one stage, whose slot must retire before it can be filled again, and for sums that are
    /// looked at on the way.
    ///
    /// (PTX: as [`start`](Self::start); CUTLASS `warpgroup_arrive`, `gemm`,
    /// `warpgroup_commit_batch`.)
    ///
    /// ```
    /// # use {half::bf16, pipeline::{prelude::*, ring::*}};
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
        // SAFETY: the group token stands for four converged warps, the slot token for tiles that
        // have arrived; the slot and the registers stay inside `InFlight` until a wait.
        unsafe {
            isa::wgmma::fence();
            St::issue::<Rd, N, BLOCKS>(slot.data(), group.index(), 0, &mut self.regs, accumulate);
            isa::wgmma::commit_group();
        }
        InFlight { acc: self, slot, group }
    }

    /// The blocks of 64 rows, from the upmost.
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
    /// What a wgmma has written, and a wait has retired.
    #[inline(always)]
    pub(crate) fn of(regs: <M64<N> as Shape>::Regs) -> Self {
        Self { regs: [regs] }
    }

    /// The registers alone.
    #[inline(always)]
    pub(crate) fn into_regs(self) -> <M64<N> as Shape>::Regs {
        let [regs] = self.regs;
        regs
    }

    /// Elements of a 16-column strip that this thread holds: for the strip's two 8-column halves,
    /// (row, col), (row, col + 1), (row + 8, col), (row + 8, col + 1), where row = lane / 4 within
    /// the warp's 16 rows and col = 2 (lane % 4). (PTX manual, "wgmma D fragment".)
    ///
    /// (CUTLASS: indexing the accumulator fragment.) See the example of [`Accumulator`].
    #[inline(always)]
    pub fn fragment(&self, strip: usize) -> [f32; 8] {
        let regs = self.regs[0].as_ref();
        core::array::from_fn(|i| regs[8 * strip + i])
    }

    /// Multiplies the sums by `factor`. By 1 costs a branch.
    ///
    /// (PTX `mul.f32`, once a sum; CUTLASS: the `alpha` of `LinearCombination`.)
    ///
    /// ```
    /// # use pipeline::prelude::*;
    /// fn half(mut sum: Accumulator<64>) -> Accumulator<64> {
    ///     sum.scale(0.5);
    ///     sum
    /// }
    /// ```
    #[inline(always)]
    pub fn scale(&mut self, factor: f32) {
        #[allow(clippy::float_cmp)] // Any other number multiplies.
        if factor != 1.0 {
            for x in self.regs[0].as_mut() {
                *x *= factor;
            }
        }
    }

    /// Four of this thread's sums, in the order of the registers.
    #[inline(always)]
    pub(crate) fn quad(&self, i: usize) -> [f32; 4] {
        let regs = self.regs[0].as_ref();
        core::array::from_fn(|j| regs[4 * i + j])
    }

    /// Adds to four of this thread's sums.
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
    /// Issues the products of `slot` behind the batch in flight, and returns the slot that the
    /// older batch has read.
    ///
    /// Waits for the older batch. (PTX `wgmma.fence`, `wgmma.mma_async` BK / 16 times,
    /// `wgmma.commit_group`, `wgmma.wait_group 1`; CUTLASS `warpgroup_arrive`, `gemm`,
    /// `warpgroup_commit_batch`, `warpgroup_wait<1>`.) See the example of [`InFlight`].
    #[device]
    pub fn next(&mut self, slot: FullSlot<St, Rd, Tag, Cl>) -> RetiredSlot<St, Tag, Cl> {
        // SAFETY: as in `start`; after the wait at most the batch just committed is in flight, so
        // the older slot is read no more.
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

    /// Issues the products of the same slot once more, behind the batch in flight.
    ///
    /// Waits for the older batch. (PTX: as [`next`](Self::next); CUTLASS: as for it.)
    ///
    /// ```
    /// # use {half::bf16, pipeline::{prelude::*, ring::*}};
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
        // SAFETY: as in `start`; the slot stays here until a wait.
        unsafe {
            isa::wgmma::fence();
            St::issue::<Rd, N, BLOCKS>(data, group, 0, &mut self.acc.regs, true);
            isa::wgmma::commit_group();
            isa::wgmma::wait_group::<1>();
        }
    }

    /// Ends the sum: returns it and the last slot.
    ///
    /// Waits for the batch in flight. (PTX `wgmma.wait_group 0`; CUTLASS `warpgroup_wait<0>`,
    /// `warpgroup_fence_operand`.) See the example of [`InFlight`].
    #[device]
    pub fn finish(self) -> (TallAccumulator<N, BLOCKS>, RetiredSlot<St, Tag, Cl>) {
        let mut this = ManuallyDrop::new(self);
        this.retire();
        // SAFETY: no batch is in flight after the wait; nothing is dropped twice, as `this` is not
        // dropped.
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
    /// Waits for all batches, and keeps what follows behind the wait.
    #[device]
    fn retire(&mut self) {
        // SAFETY: the group token: four converged warps.
        unsafe { isa::wgmma::wait_group::<0>() };
        // The compiler takes the sums for known since the wgmma was issued: keep it from moving
        // their first use above the wait (CUTLASS `warpgroup_fence_operand`).
        for regs in &mut self.acc.regs {
            M64::<N>::fence_operand(regs);
        }
    }
}

/// A batch that is dropped is waited for, so that it can't write registers that have another use by
/// then. Its slot is lost, and the ring stops for want of it.
///
/// Waits for the batch in flight. (PTX `wgmma.wait_group 0`; where every batch is finished,
/// nothing.)
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
