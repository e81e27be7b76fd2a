//! Slots of a ring that hold scale factors beside the tiles of A and B: [`BlockScaled`], and [`BlockScaledSwapAb`].
//!
//! Invariant: the scale factors are in the slot when its full barrier completes. TMA brings the vector, and its bytes count in
//! the slot's transaction bytes. The loading thread stores the others before it arms the slot.

use super::stage::sealed::Sealed;
use super::{LoadsInto, Stage};
use crate::cta::Sharing;
use crate::tile::{Load, TileShape, facts};
use core::marker::PhantomData;
use isa::device;
use isa::kernel::TileFacts;

/// A k tile of both operands with its scale factors (block scaling): tiles `A` and `B`, a vector `V` with one f32 for each
/// row of A (SFA), and `COUNT` f32 for B (SFB), each for `UNIT` rows of B.
///
/// `UNIT` is the granularity of B's scales if the rows of B are a multiple of it, and else the greatest common divisor of
/// the two. So no unit crosses the border of two blocks, wherever the tile begins. With blocks of 128 rows, a B of 256 rows has 2
/// units of 128, and a B of 192 rows has 3 units of 64.
///
/// A slot is loaded by a tuple of three loads and the scale factors of B. [`PromotedAccumulator`] multiplies each part by
/// them when it adds it.
///
/// (PTX: three `cp.async.bulk.tensor.2d`, and `st.shared` before `mbarrier.arrive.expect_tx`; CUTLASS: a stage of
/// `MainloopSm90TmaGmmaWarpSpecializedBlockScalingFP8`, with `smem_SFA` and `smem_SFB`.)
///
/// ```
/// # use {float8::F8E4M3, warpipe_pipeline::{prelude::*, ring::*, tile::Vector}};
/// # names! { Main = "main loop" }
/// type A = Tile<F8E4M3, 128, 128>;
/// type B = Tile<F8E4M3, 256, 128>;
/// type Sfa = Vector<f32, 128>;
/// type Slot = BlockScaled<A, B, Sfa, 2, 128>;
/// assert_eq!((Slot::BYTES, Slot::SLOT_BYTES), (48 * 1024 + 512, 48 * 1024));
///
/// /// Loads k tile `k` of a tile of D at (`row`, `col`). A's scale factors are [K/128, M].
/// fn load(
///     slot: EmptySlot<Slot, Main>,
///     (a, b, sfa): (&TensorMap<A>, &TensorMap<B>, &TensorMap<Sfa>),
///     (row, col, k): (u32, u32, u32),
///     sfb: [f32; 2],
/// ) {
///     let alone = Peers::ALONE;
///     slot.load((a.tile(row, 128 * k, alone), b.tile(col, 128 * k, alone), sfa.tile(k, row, alone), sfb));
/// }
/// ```
///
/// [`PromotedAccumulator`]: crate::mma::PromotedAccumulator
pub struct BlockScaled<A, B, V, const COUNT: usize, const UNIT: usize>(PhantomData<(A, B, V)>);

/// The alignment that TMA demands of a vector in shared memory.
const ALIGN: usize = 128;

impl<A: TileShape, B: TileShape, V: TileShape<Element = f32>, const COUNT: usize, const UNIT: usize>
    BlockScaled<A, B, V, COUNT, UNIT>
{
    /// Offset of the scale factors of B behind the slot's address beside the tiles.
    pub(crate) const SFB: usize = {
        assert!(
            V::ROWS == 1 && V::COLS == A::ROWS,
            "the scale factors of A are a vector with one for each row of the tile"
        );
        assert!(
            COUNT * UNIT == B::ROWS && UNIT.is_multiple_of(8),
            "the scale factors of B cover the rows of its tile, in units of a multiple of 8"
        );
        V::BYTES
    };
}

impl<A, B, V, const COUNT: usize, const UNIT: usize> Sealed for BlockScaled<A, B, V, COUNT, UNIT> {}
impl<A: TileShape, B: TileShape, V: TileShape<Element = f32>, const COUNT: usize, const UNIT: usize>
    Stage for BlockScaled<A, B, V, COUNT, UNIT>
{
    const BYTES: usize = A::BYTES + B::BYTES + V::BYTES;
    const TILES: usize = 3;
    const FACTS: &'static [TileFacts] = &[facts::<A>(), facts::<B>()];
    const SLOT_BYTES: usize = A::BYTES + B::BYTES;
    const BESIDE_BYTES: usize = (Self::SFB + 4 * COUNT).next_multiple_of(ALIGN);
}

impl<
    A: TileShape,
    B: TileShape,
    V: TileShape<Element = f32>,
    P: Sharing,
    Q: Sharing,
    R: Sharing,
    const COUNT: usize,
    const UNIT: usize,
> LoadsInto<BlockScaled<A, B, V, COUNT, UNIT>>
    for (Load<'_, A, P>, Load<'_, B, Q>, Load<'_, V, R>, [f32; COUNT])
{
    #[device]
    unsafe fn issue(self, data: u32, beside: u32, full: u32) {
        let (a, b, sfa, _) = self;
        // SAFETY: the caller's contract; the tiles are contiguous, and the vector lies beside them.
        unsafe {
            a.issue(data, full);
            b.issue(data + A::BYTES as u32, full);
            sfa.issue(beside, full);
        }
    }

    #[device]
    unsafe fn store(&self, beside: u32) {
        let at = beside + BlockScaled::<A, B, V, COUNT, UNIT>::SFB as u32;
        for (i, value) in self.3.iter().enumerate() {
            // SAFETY: the caller's contract: the readers have released the slot. They see the values, because this
            // thread's arrival on the full barrier releases them.
            unsafe { isa::shared::st(at + 4 * i as u32, *value) };
        }
    }
}

/// The slot of [`BlockScaled`] with swap_ab: a vector `V` with one f32 for each row of B, and one f32 for all rows of A. `V` may be
/// longer than B has rows, because vectors are whole lines of 128 bytes.
///
/// The tile of A lies within one block of the operand that has block scales, so it has one scale factor. A lane has `LANE`
/// columns of D, a quarter of B's rows, because a fragment's 8 columns are those of four lanes.
///
/// A slot is loaded by a tuple of three loads and the scale factor of A.
///
/// (PTX: three `cp.async.bulk.tensor.2d`, and `st.shared` before `mbarrier.arrive.expect_tx`; CUTLASS: a stage of
/// `MainloopSm90TmaGmmaWarpSpecializedBlockScalingFP8` with the granularities of M and N exchanged.)
///
/// ```
/// # use {float8::F8E4M3, warpipe_pipeline::{prelude::*, ring::*, tile::Vector}};
/// # names! { Main = "main loop" }
/// /// 64 of the weights' rows, and 16 of the activations'.
/// type A = Tile<F8E4M3, 64, 128>;
/// type B = Tile<F8E4M3, 16, 128>;
/// type Scales = Vector<f32, 32>;
/// type Slot = BlockScaledSwapAb<A, B, Scales, 4>;
/// assert_eq!((Slot::BYTES, Slot::SLOT_BYTES), (10 * 1024 + 128, 10 * 1024));
///
/// /// Loads k tile `k` of a tile at (`row`, `col`). B's scale factors are [K/128, N].
/// fn load(
///     slot: EmptySlot<Slot, Main>,
///     (a, b, scales): (&TensorMap<A>, &TensorMap<B>, &TensorMap<Scales>),
///     (row, col, k): (u32, u32, u32),
///     of_a: f32,
/// ) {
///     let alone = Peers::ALONE;
///     slot.load((a.tile(row, 128 * k, alone), b.tile(col, 128 * k, alone), scales.tile(k, col, alone), of_a));
/// }
/// ```
pub struct BlockScaledSwapAb<A, B, V, const LANE: usize>(PhantomData<(A, B, V)>);

impl<A: TileShape, B: TileShape, V: TileShape<Element = f32>, const LANE: usize>
    BlockScaledSwapAb<A, B, V, LANE>
{
    /// Offset of the scale factor of A behind the slot's address beside the tiles.
    pub(crate) const OF_A: usize = {
        assert!(
            V::ROWS == 1 && V::COLS >= B::ROWS,
            "the vector has a scale factor for each row of the tile of B"
        );
        assert!(4 * LANE == B::ROWS, "a lane has a quarter of the columns");
        V::BYTES
    };
}

impl<A, B, V, const LANE: usize> Sealed for BlockScaledSwapAb<A, B, V, LANE> {}
impl<A: TileShape, B: TileShape, V: TileShape<Element = f32>, const LANE: usize> Stage
    for BlockScaledSwapAb<A, B, V, LANE>
{
    const BYTES: usize = A::BYTES + B::BYTES + V::BYTES;
    const TILES: usize = 3;
    const FACTS: &'static [TileFacts] = &[facts::<A>(), facts::<B>()];
    const SLOT_BYTES: usize = A::BYTES + B::BYTES;
    const BESIDE_BYTES: usize = (Self::OF_A + 4).next_multiple_of(ALIGN);
}

impl<
    A: TileShape,
    B: TileShape,
    V: TileShape<Element = f32>,
    P: Sharing,
    Q: Sharing,
    R: Sharing,
    const LANE: usize,
> LoadsInto<BlockScaledSwapAb<A, B, V, LANE>>
    for (Load<'_, A, P>, Load<'_, B, Q>, Load<'_, V, R>, f32)
{
    #[device]
    unsafe fn issue(self, data: u32, beside: u32, full: u32) {
        let (a, b, scales, _) = self;
        // SAFETY: the caller's contract; the tiles are contiguous, and the vector lies beside them.
        unsafe {
            a.issue(data, full);
            b.issue(data + A::BYTES as u32, full);
            scales.issue(beside, full);
        }
    }

    #[device]
    unsafe fn store(&self, beside: u32) {
        let at = beside + BlockScaledSwapAb::<A, B, V, LANE>::OF_A as u32;
        // SAFETY: the caller's contract: the readers have released the slot. They see the value, because this thread's
        // arrival on the full barrier releases it.
        unsafe { isa::shared::st(at, self.3) };
    }
}
