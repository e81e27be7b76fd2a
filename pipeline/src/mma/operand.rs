//! Operands of wgmma: tiles of slots, one slot for both or one for each, and fragments in registers.
//!
//! Invariant: an [`Operands`] value owns what a batch reads: the slots' tokens and the registers of
//! A. So nothing else can release or change them while the batch is in flight.
//!
//! The descriptors follow from the tiles' types. One wgmma multiplies 32 bytes of K.

use crate::cta::ClusterShape;
use crate::mma::a_fragment::{AFragment, AShape};
use crate::mma::fragment::GROUP_ROWS;
use crate::ring::{FullSlot, MmaReaders, Name, RetiredSlot, Stage};
use crate::tile::{Element, Major, Tile, TileShape};
use isa::device;
use isa::wgmma::{M64, MulBy, Operand, OperandMajor, Shape, Swizzle};

/// Bytes along K that one wgmma reads of each operand.
const K_BYTES: usize = 32;

/// Returns the byte offset of element (`mn`, `k`) in a tile: `mn` counts the rows of the operand,
/// `k` its columns. The element is the first of a block that a descriptor can name: `k` a multiple
/// of 32 bytes, `mn` of 8 lines, or of a panel if the tile is MN-major.
pub(crate) const fn offset_of<T: TileShape>(mn: usize, k: usize) -> usize {
    let (inner, line) = if T::Major::MN { (mn, k) } else { (k, mn) };
    let bytes = inner * T::Element::SIZE;
    bytes / T::LINE_BYTES * T::PANEL_BYTES + line * T::LINE_BYTES + bytes % T::LINE_BYTES
}

/// Bits of an address that a matrix descriptor has.
const DESCRIPTOR_BITS: u32 = 18;

/// Returns a shared address as a descriptor takes it. In a cluster, the address of a variable in shared memory has the
/// CTA's rank in bits 24 to 31, as the `shared::cluster` address of the same byte. In a descriptor, they would fall into
/// the leading offset.
///
/// Ordinary loads and barriers take the whole address.
#[isa::forceinline]
pub(crate) const fn of_descriptor<Cl: ClusterShape>(addr: u32) -> u32 {
    // On the model, the bits up to the rank name the region.
    const BITS: u32 = if cfg!(target_arch = "nvptx64") { DESCRIPTOR_BITS } else { 24 };
    if Cl::SIZE > 1 { addr & ((1 << BITS) - 1) } else { addr }
}

/// Returns the descriptor of the tile at `addr`, an address that [`of_descriptor`] has returned, or one a little behind it.
///
/// With a swizzle, the stride leads from 8 lines to the next 8, and in an MN-major tile the leading
/// offset leads from panel to panel (a K-major tile has no use for it: 32 bytes of K lie in one
/// panel). Without a swizzle, core matrices of 8 lines of 16 bytes lie one after the other: along
/// the lines 128 bytes apart, along the contiguous dimension a panel apart. Which of the two
/// distances is the leading one then depends on the major-ness.
///
/// (PTX manual, "Strides" and "Canonical layouts" of `wgmma`'s shared memory layout; CUTLASS
/// `make_gmma_desc`.)
#[isa::forceinline]
fn descriptor<T: TileShape>(addr: u32) -> u64 {
    const EIGHT: u32 = 8;
    let (panel, lines) = (T::PANEL_BYTES as u32, EIGHT * T::LINE_BYTES as u32);
    let (lead, stride) = match (T::SWIZZLE, T::Major::MN) {
        (0, false) => (panel, lines),
        (0, true) => (lines, panel),
        (_, false) => (16, lines),
        (_, true) => (panel, lines),
    };
    let swizzle = match T::SWIZZLE {
        0 => Swizzle::None,
        32 => Swizzle::B32,
        64 => Swizzle::B64,
        _ => Swizzle::B128,
    };
    #[cfg(not(target_arch = "nvptx64"))]
    assert!(addr < 1 << 24, "a descriptor of {addr:#x}: the address has the CTA's rank");
    // SAFETY: shared memory ends below 2^18, and the address has no rank, which the model has checked.
    #[cfg(target_arch = "nvptx64")]
    unsafe {
        core::hint::assert_unchecked(addr < 1 << DESCRIPTOR_BITS);
    }
    isa::wgmma::descriptor(addr, lead, stride, swizzle)
}

/// Returns the descriptor of the address `bytes` further on. Shared memory ends below 2¹⁸, so the
/// address field can't overflow, and 32-bit arithmetic on the low half is enough.
#[isa::forceinline]
pub(crate) fn further(descriptor: u64, bytes: usize) -> u64 {
    let (high, low) = (descriptor >> 32 << 32, descriptor as u32);
    high | (low + bytes as u32 / 16) as u64
}

/// Issues the wgmmas of `BLOCKS` times 64 rows of A, from the rows of part `share` on, with `N` rows
/// of B from row `first` on.
///
/// # Safety
/// As [`Operands::issue`]; the tiles at `a` and `b` have arrived.
#[device]
pub(crate) unsafe fn issue_tiles<A, B, const N: usize, const BLOCKS: usize, S>(
    (a, share): (u32, u32),
    (b, first): (u32, usize),
    regs: &mut [<M64<N> as Shape<S>>::Regs; BLOCKS],
    accumulate: bool,
) where
    A: TileShape,
    A::Element: MulBy<B::Element, Sum = S> + OperandMajor<A::Major>,
    B: TileShape,
    B::Element: Operand + OperandMajor<B::Major>,
    M64<N>: Shape<S>,
{
    const {
        assert!(A::COLS == B::COLS, "A and B have the same extent along K");
        assert!(A::COLS * A::Element::SIZE >= K_BYTES, "a wgmma multiplies 32 bytes of K");
    }
    let k_elements = const { K_BYTES / A::Element::SIZE };
    let a = a + share * const { offset_of::<A>(BLOCKS * GROUP_ROWS, 0) as u32 };
    // An A that stays for many batches would have its descriptors computed ahead, one for each step along K, and a wide
    // one has more than the uniform registers hold.
    let wide = const { A::COLS * A::Element::SIZE > 256 };
    let a = descriptor::<A>(if wide { isa::misc::opaque(a) } else { a });
    let b = descriptor::<B>(b + offset_of::<B>(first, 0) as u32);
    for k in 0..A::COLS / k_elements {
        let b = further(b, offset_of::<B>(0, k * k_elements));
        for (i, regs) in regs.iter_mut().enumerate() {
            let a = further(a, offset_of::<A>(i * GROUP_ROWS, k * k_elements));
            // SAFETY: the caller's contract.
            unsafe {
                <M64<N> as Shape<S>>::mma::<A::Element, B::Element, A::Major, B::Major>(
                    regs,
                    a,
                    b,
                    accumulate || k > 0,
                );
            }
        }
    }
}

/// Seals [`Operands`] and [`MmaTiles`]: what a batch reads is what its token owns.
pub(super) mod sealed {
    #[diagnostic::on_unimplemented(
        message = "`{Self}` can't be the operands of a batch of wgmmas",
        label = "not the operands of a product",
        note = "operands are a full slot, which `wait()` returns, with two tiles, A and B; a pair of full slots with a tile each; or a pair of an `AFragment` and a full slot with one tile"
    )]
    pub trait Sealed {}
}
use sealed::Sealed;

/// The operands of one batch of wgmmas, which multiplies into an accumulator of `BLOCKS` times 64
/// rows and `N` columns.
///
/// - [`FullSlot<(A, B)>`](FullSlot): both tiles lie in one slot, as in a GEMM's main loop.
/// - `(FullSlot<(A,)>, FullSlot<(B,)>)`: they lie in slots of different rings, which are given back
///   on their own: the queries and the keys of attention.
/// - `(AFragment, FullSlot<(B,)>)`: A is in registers.
///
/// The product is A·Bᵀ, for an A of M rows and K columns and a B of N rows and K columns. The warp
/// groups that share a slot of A split its rows equally, in order. Each reads all of B. Whether a
/// tile is contiguous along K or along its rows is part of its type ([`Tile`]).
///
/// The elements of A and B are bf16, f16 or [`Tf32`](isa::Tf32) both, or `F8E4M3` or `F8E5M2` each; or `i8`
/// both, and then the sums `S` are i32 ([`IntAccumulator`](crate::mma::IntAccumulator)). The chip keeps sums of 8-bit floats short ([`isa::wgmma`]): after 128 along K, start a new accumulator and add
/// the old one to sums of your own, unless the error is small enough (CUTLASS
/// `KernelTmaWarpSpecializedFP8FastAccum` does without).
///
/// (PTX `wgmma.mma_async.sync.aligned.m64nNkK.f32`, once for 32 bytes of K and each 64 rows;
/// CUTLASS: `TiledMma` over `GMMA::ss_op_selector` or `GMMA::rs_op_selector`.)
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{mma::AFragment, prelude::*, ring::*, tile::MnMajor}};
/// # names! { Queries = "Q", Keys = "K", Values = "V" }
/// # roles! { Load = 1 x 24 registers, Math = 2 x 240 registers } type Alone = Cluster<1, 1>;
/// type Q = FullSlot<(Tile<bf16, 128, 128>,), Mma<Math>, Queries, Alone>;
/// type K = FullSlot<(Tile<bf16, 64, 128>,), Mma<Math>, Keys, Alone>;
/// type V = FullSlot<(Tile<bf16, 128, 64, MnMajor>,), Mma<Math>, Values, Alone>;
///
/// /// O = (Q·Kᵀ)·V, of one block of 64 keys.
/// fn product(group: &Warpgroup<Math, Alone>, q: Q, k: K, v: V) -> Accumulator<128> {
///     let (scores, (q, k)) = Accumulator::<64>::start(group, (q, k)).finish();
///     q.release();
///     k.release();
///     let (sum, v) = Accumulator::<128>::start(group, (scores.to_a::<bf16>(), v)).finish();
///     v.release();
///     sum
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be multiplied into an accumulator of {N} columns",
    label = "not the operands of a product of {N} columns",
    note = "operands are a full slot, which `wait()` returns, with two tiles, A and B; a pair of full slots with a tile each; or a pair of an `AFragment` and a full slot with one tile",
    note = "B has {N} rows, the columns of the accumulator, and the columns of A, and an element that wgmma multiplies with that of A: `Tile<bf16, {N}, 64>` for 64 columns of A",
    note = "a B that lies in memory as [columns of A, {N}], such as the values of attention, is MN-major: `Tile<bf16, {N}, 64, MnMajor>`"
)]
pub trait Operands<const N: usize, const BLOCKS: usize = 1, S = f32>: Sealed
where
    M64<N>: Shape<S>,
{
    /// The role whose warp groups multiply.
    type Role;
    /// The cluster's shape.
    type Cluster;
    /// What the batch gives back when it has retired: the slots.
    type Retired;

    /// Issues the wgmmas. They add to `regs` only if `accumulate` is true.
    ///
    /// (PTX `wgmma.mma_async`; CUTLASS `gemm`.) See the example of [`Operands`].
    ///
    /// # Safety
    /// The four warps of the warp group number `group` are converged. `wgmma.fence` has been
    /// executed. `regs` and the operands stay where they are until the wgmmas have retired.
    unsafe fn issue(
        &mut self,
        group: u32,
        regs: &mut [<M64<N> as Shape<S>>::Regs; BLOCKS],
        accumulate: bool,
    );

    /// Gives the slots back.
    ///
    /// See the example of [`Operands`].
    ///
    /// # Safety
    /// A `wgmma.wait_group` that covers all wgmmas on these operands has returned.
    unsafe fn retired(self) -> Self::Retired;
}

/// A slot type whose two tiles are operands of wgmma, A and B, with sums of `S`.
///
/// (PTX and CUTLASS: as for [`Operands`].)
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
    note = "a slot that wgmma multiplies is a pair (A, B) of bf16, f16, Tf32 or i8, or of F8E4M3 and F8E5M2 in any mix, with equal columns: `(Tile<bf16, 64, 64>, Tile<bf16, 128, 64>)`"
)]
pub trait MmaTiles<S = f32>: Stage + Sealed {
    /// Rows of the second tile (B), which are the columns of the product.
    const COLUMNS: usize;

    /// Issues the wgmmas of one slot for `N` columns of the product, from column `first` on, a
    /// multiple of 8. They add to `regs` only if `accumulate` is true.
    ///
    /// (PTX `wgmma.mma_async`, once for 32 bytes of K and each block; CUTLASS `gemm`.) See the example of
    /// [`MmaTiles`].
    ///
    /// # Safety
    /// The four warps of the group are converged. The slot at `data` is full. `first` + `N` is at most
    /// [`COLUMNS`](Self::COLUMNS). `wgmma.fence` has been executed.
    unsafe fn issue<Rd: MmaReaders, const N: usize, const BLOCKS: usize>(
        data: u32,
        group: u32,
        first: usize,
        regs: &mut [<M64<N> as Shape<S>>::Regs; BLOCKS],
        accumulate: bool,
    ) where
        M64<N>: Shape<S>;
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
    note = "a slot that wgmma multiplies is a pair (A, B) of bf16, f16, Tf32 or i8, or of F8E4M3 and F8E5M2 in any mix, with equal columns: `(Tile<bf16, 64, 64>, Tile<bf16, {N}, 64>)`",
    note = "the rows of B are the columns of the product: an `Accumulator<{N}>` needs a B of {N} rows"
)]
pub trait MmaStage<const N: usize, S = f32>: MmaTiles<S> {}

type TileOf<E, const R: usize, const K: usize, M, const S: usize> = Tile<E, R, K, M, S>;

impl<
    EA,
    EB,
    S,
    MA,
    MB,
    const BM: usize,
    const N: usize,
    const K: usize,
    const SA: usize,
    const SB: usize,
> MmaStage<N, S> for (TileOf<EA, BM, K, MA, SA>, TileOf<EB, N, K, MB, SB>)
where
    EA: Element + MulBy<EB, Sum = S> + OperandMajor<MA>,
    EB: Element + Operand + OperandMajor<MB>,
    MA: Major,
    MB: Major,
{
}

impl<
    EA,
    EB,
    MA,
    MB,
    const BM: usize,
    const N: usize,
    const K: usize,
    const SA: usize,
    const SB: usize,
> Sealed for (TileOf<EA, BM, K, MA, SA>, TileOf<EB, N, K, MB, SB>)
where
    EA: Element + MulBy<EB> + OperandMajor<MA>,
    EB: Element + Operand + OperandMajor<MB>,
    MA: Major,
    MB: Major,
{
}

impl<
    EA,
    EB,
    S,
    MA,
    MB,
    const BM: usize,
    const BN: usize,
    const K: usize,
    const SA: usize,
    const SB: usize,
> MmaTiles<S> for (TileOf<EA, BM, K, MA, SA>, TileOf<EB, BN, K, MB, SB>)
where
    EA: Element + MulBy<EB, Sum = S> + OperandMajor<MA>,
    EB: Element + Operand + OperandMajor<MB>,
    MA: Major,
    MB: Major,
{
    const COLUMNS: usize = BN;

    #[device]
    unsafe fn issue<Rd: MmaReaders, const N: usize, const BLOCKS: usize>(
        data: u32,
        group: u32,
        first: usize,
        regs: &mut [<M64<N> as Shape<S>>::Regs; BLOCKS],
        accumulate: bool,
    ) where
        M64<N>: Shape<S>,
    {
        const { assert_rows::<TileOf<EA, BM, K, MA, SA>, Rd, BLOCKS>() };
        let b = data + <TileOf<EA, BM, K, MA, SA> as TileShape>::BYTES as u32;
        // SAFETY: the caller's contract.
        unsafe {
            issue_tiles::<TileOf<EA, BM, K, MA, SA>, TileOf<EB, BN, K, MB, SB>, N, BLOCKS, S>(
                (data, Rd::share(group)),
                (b, first),
                regs,
                accumulate,
            );
        }
    }
}

/// The tile of A has the rows of all warp groups that share it.
const fn assert_rows<A: TileShape, Rd: MmaReaders, const BLOCKS: usize>() {
    assert!(
        A::ROWS == GROUP_ROWS * Rd::GROUPS * BLOCKS,
        "the tile of A has the rows of the accumulators of all warp groups that read it: 64 for each block"
    );
}

// Both tiles in one slot.
impl<St, Rd, Tag, Cl> Sealed for FullSlot<St, Rd, Tag, Cl> {}
impl<const N: usize, const BLOCKS: usize, S, St, Rd, Tag, Cl> Operands<N, BLOCKS, S>
    for FullSlot<St, Rd, Tag, Cl>
where
    M64<N>: Shape<S>,
    St: MmaStage<N, S>,
    Rd: MmaReaders,
    Tag: Name,
    Cl: ClusterShape,
{
    type Role = Rd::Role;
    type Cluster = Cl;
    type Retired = RetiredSlot<St, Rd, Tag, Cl>;
    #[device]
    unsafe fn issue(
        &mut self,
        group: u32,
        regs: &mut [<M64<N> as Shape<S>>::Regs; BLOCKS],
        accumulate: bool,
    ) {
        // SAFETY: the caller's contract; the token proves that the tiles have arrived.
        unsafe { St::issue::<Rd, N, BLOCKS>(self.data(), group, 0, regs, accumulate) }
    }
    #[isa::forceinline]
    unsafe fn retired(self) -> Self::Retired {
        // SAFETY: the caller's contract.
        unsafe { self.into_retired() }
    }
}

// One slot for each tile.
impl<StA, RdA, TagA, StB, RdB, TagB, Cl> Sealed
    for (FullSlot<StA, RdA, TagA, Cl>, FullSlot<StB, RdB, TagB, Cl>)
{
}
// The types say that the extents agree, so that `cargo check` refuses others.
impl<
    const N: usize,
    const BLOCKS: usize,
    EA,
    EB,
    S,
    const BM: usize,
    const K: usize,
    MA,
    const SA: usize,
    RdA,
    TagA,
    MB,
    const SB: usize,
    RdB,
    TagB,
    Cl,
> Operands<N, BLOCKS, S>
    for (
        FullSlot<(TileOf<EA, BM, K, MA, SA>,), RdA, TagA, Cl>,
        FullSlot<(TileOf<EB, N, K, MB, SB>,), RdB, TagB, Cl>,
    )
where
    M64<N>: Shape<S>,
    EA: Element + MulBy<EB, Sum = S> + OperandMajor<MA>,
    EB: Element + Operand + OperandMajor<MB>,
    MA: Major,
    MB: Major,
    RdA: MmaReaders,
    RdB: MmaReaders<Role = RdA::Role>,
    TagA: Name,
    TagB: Name,
    Cl: ClusterShape,
{
    type Role = RdA::Role;
    type Cluster = Cl;
    type Retired = (
        RetiredSlot<(TileOf<EA, BM, K, MA, SA>,), RdA, TagA, Cl>,
        RetiredSlot<(TileOf<EB, N, K, MB, SB>,), RdB, TagB, Cl>,
    );
    #[device]
    unsafe fn issue(
        &mut self,
        group: u32,
        regs: &mut [<M64<N> as Shape<S>>::Regs; BLOCKS],
        accumulate: bool,
    ) {
        const { assert_rows::<TileOf<EA, BM, K, MA, SA>, RdA, BLOCKS>() };
        let (a, b) = ((self.0.data(), RdA::share(group)), (self.1.data(), 0));
        // SAFETY: the caller's contract; the tokens prove that the tiles have arrived.
        unsafe {
            issue_tiles::<TileOf<EA, BM, K, MA, SA>, TileOf<EB, N, K, MB, SB>, N, BLOCKS, S>(
                a, b, regs, accumulate,
            );
        }
    }
    #[isa::forceinline]
    unsafe fn retired(self) -> Self::Retired {
        // SAFETY: the caller's contract.
        unsafe { (self.0.into_retired(), self.1.into_retired()) }
    }
}

// A in registers.
impl<E, const K: usize, St, Rd, Tag, Cl> Sealed for (AFragment<E, K>, FullSlot<St, Rd, Tag, Cl>) where
    M64<K>: AShape
{
}
impl<const N: usize, E, const K: usize, MB, const SB: usize, Rd, Tag, Cl> Operands<N>
    for (AFragment<E, K>, FullSlot<(TileOf<E, N, K, MB, SB>,), Rd, Tag, Cl>)
where
    M64<N>: Shape,
    M64<K>: AShape,
    E: Element + MulBy<E, Sum = f32> + OperandMajor<MB>,
    MB: Major,
    Rd: MmaReaders,
    Tag: Name,
    Cl: ClusterShape,
{
    type Role = Rd::Role;
    type Cluster = Cl;
    type Retired = RetiredSlot<(TileOf<E, N, K, MB, SB>,), Rd, Tag, Cl>;
    #[device]
    unsafe fn issue(
        &mut self,
        _group: u32,
        regs: &mut [<M64<N> as Shape>::Regs; 1],
        accumulate: bool,
    ) {
        let k_elements = const { K_BYTES / E::SIZE };
        let b = descriptor::<TileOf<E, N, K, MB, SB>>(self.1.data());
        for (k, a) in self.0.registers().iter_mut().enumerate() {
            let b = further(b, offset_of::<TileOf<E, N, K, MB, SB>>(0, k * k_elements));
            // SAFETY: the caller's contract; the token proves that the tile has arrived, and the
            // registers stay in `self` until the wgmma has retired.
            unsafe { M64::<N>::mma_rs::<E, E, MB>(&mut regs[0], a, b, accumulate || k > 0) };
        }
    }
    #[isa::forceinline]
    unsafe fn retired(mut self) -> Self::Retired {
        // The registers are free only from here on, to the compiler as well.
        for a in self.0.registers() {
            isa::wgmma::fence_fragment(a);
        }
        // SAFETY: the caller's contract.
        unsafe { self.1.into_retired() }
    }
}
