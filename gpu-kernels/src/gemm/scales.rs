//! Scale factors that the main loop applies: what a slot holds beside the tiles of A and B, and how the producer loads it.
//! (CUTLASS: `Sm90BlockwiseScaleConfig`, and the load of a blockwise collective main loop.)
//!
//! Scales of tensors and of rows are not here: the epilogue [`Scaled`](super::Scaled) applies those.
#![forbid(unsafe_code)]

use super::scheduler::TileOrigin;
use isa::kernel::KernelArg;
use pipeline::cta::{ClusterShape, Role};
use pipeline::grid::{DependentSlice, Waited};
use pipeline::prelude::*;
use pipeline::ring::{
    BlockScaled, BlockScaledSwapAb, EmptySlot, MmaReaders, MmaReads, Name, Stage,
};
use pipeline::tile::{Load, TileShape, Vector};

/// Elements along K that have one scale factor: those of a k tile.
pub const GRANULARITY_K: u32 = 128;
/// Rows of B that have one scale factor.
pub const GRANULARITY_N: u32 = 128;

/// The scale factors of a kernel whose tiles are `A` and `B`.
pub trait ScaleConfig<A: TileShape, B: TileShape, Cl: ClusterShape>: 'static {
    /// What a slot of the ring of A and B holds.
    type Slot: Stage;
    /// How the warp groups of a role read such slots together.
    type Readers<Ro: Role>: MmaReaders<Role = Ro>;
    /// What the kernel gets beside the tensor maps of A and B.
    type Args<'a>: Copy;
    /// What the producer keeps while it loads the k tiles of a tile.
    type Producer<'a>;
    /// Rows of A, rows of B and elements along K that share a scale factor (CUTLASS `ScaleGranularityM`, `N`, `K`). `None`
    /// if the main loop scales nothing.
    const GRANULARITY: Option<[u32; 3]>;

    /// Begins a tile at `at`, whose first k tile is `k`.
    fn begin<'a>(
        args: Self::Args<'a>,
        token: &impl Waited,
        at: TileOrigin,
        k: u32,
    ) -> Self::Producer<'a>;

    /// Loads the next k tile into a slot. `a` and `b` are the loads of its tiles.
    ///
    /// Signals the slot's full barrier, as [`EmptySlot::load`] does.
    fn load<Tag: Name>(
        producer: &mut Self::Producer<'_>,
        slot: EmptySlot<Self::Slot, Tag>,
        a: Load<'_, A, Cl::SharesA>,
        b: Load<'_, B, Cl::SharesB>,
    );
}

/// The main loop scales nothing.
pub enum Unscaled {}

impl<A: TileShape, B: TileShape, Cl: ClusterShape> ScaleConfig<A, B, Cl> for Unscaled {
    type Slot = (A, B);
    type Readers<Ro: Role> = Mma<Ro>;
    type Args<'a> = ();
    type Producer<'a> = ();
    const GRANULARITY: Option<[u32; 3]> = None;

    #[isa::forceinline]
    fn begin<'a>(
        _args: Self::Args<'a>,
        _token: &impl Waited,
        _at: TileOrigin,
        _k: u32,
    ) -> Self::Producer<'a> {
    }
    #[isa::forceinline]
    fn load<Tag: Name>(
        (): &mut (),
        slot: EmptySlot<(A, B), Tag>,
        a: Load<'_, A, Cl::SharesA>,
        b: Load<'_, B, Cl::SharesB>,
    ) {
        slot.load((a, b));
    }
}

/// Block scaling: each row of A has a scale factor for each 128 of K, and so has each block of 128 rows of B. (DeepSeek's
/// recipe; torch: `BlockWise1x128` by `BlockWise128x128`; CUTLASS: `Sm90BlockwiseScaleConfig<1, 128, 128>`.)
///
/// A's tile has `BM` rows. B's has `COUNT` units of `UNIT` rows ([`unit()`]), and each has one scale factor. So the producer
/// decides which block a unit belongs to, and the type of the slot which unit a column of D belongs to. The tile touches up to
/// `BLOCKS` blocks ([`blocks()`]).
pub struct Blockwise<const BM: usize, const COUNT: usize, const UNIT: usize, const BLOCKS: usize>;

/// The rows of B that certainly share a scale factor if tiles have `bn` rows: the greatest common divisor with the
/// granularity.
#[must_use]
pub const fn unit(bn: usize) -> usize {
    let (mut x, mut y) = (bn, GRANULARITY_N as usize);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    x
}

/// The most blocks of rows of B that a tile of `bn` rows touches.
#[must_use]
pub const fn blocks(bn: usize) -> usize {
    let granularity = GRANULARITY_N as usize;
    // A tile begins at a multiple of its unit, so at most this far behind the first row of a block.
    let most = granularity - unit(bn);
    (most + bn).div_ceil(granularity)
}

/// The tensor map of the scale factors of A, [K/128, M], in boxes of as many as a CTA's tile needs. Its rows are at least as long as M, and their pitch is a multiple
/// of 4 elements (16 bytes, what TMA requires).
pub type MapSfa<const BM: usize> = TensorMap<Vector<f32, BM>>;

/// The kernel argument for the scale factors of B: [N/128, K/128].
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct Sfb<'a> {
    /// The scale factors, row by row.
    pub values: DependentSlice<'a, f32>,
    /// Elements from row to row.
    pub pitch: u64,
}

/// The arguments of a kernel with block scaling.
#[derive(Clone, Copy)]
pub struct BlockwiseArgs<'a, const BM: usize> {
    /// The scale factors of A.
    pub sfa: &'a MapSfa<BM>,
    /// The scale factors of B.
    pub sfb: Sfb<'a>,
}

/// The producer's position in the scale factors of a tile, whose B touches `BLOCKS` blocks.
pub struct BlockwiseProducer<'a, const BM: usize, const BLOCKS: usize> {
    sfa: &'a MapSfa<BM>,
    row: u32,
    k: u32,
    sfb: isa::slice::DeviceSlice<'a, f32>,
    /// From block to block.
    pitch: usize,
    /// Where the scale factor of the first block lies for the next k tile.
    at: usize,
    /// Rows of B behind the first one of its block.
    offset: u32,
    /// The scale factors of the next k tile: they are loaded one k tile before they are stored.
    next: [f32; BLOCKS],
}

impl<'a, const BM: usize, const BLOCKS: usize> BlockwiseProducer<'a, BM, BLOCKS> {
    /// Begins a tile with the rows of the product's A from `row` on, and those of its B from `col` on.
    #[isa::forceinline]
    fn begin(
        args: BlockwiseArgs<'a, BM>,
        token: &impl Waited,
        [row, col]: [u32; 2],
        k: u32,
    ) -> Self {
        let (block, offset) = (col / GRANULARITY_N, col % GRANULARITY_N);
        let pitch = args.sfb.pitch as usize;
        let (sfb, at) = (args.sfb.values.by(token), block as usize * pitch + k as usize);
        let next = [0.0; BLOCKS];
        let mut producer = Self { sfa: args.sfa, row, k, sfb, pitch, at, offset, next };
        producer.advance();
        producer
    }

    /// The scale factors of the next k tile: those of B's blocks, and the load of those of A.
    #[isa::forceinline]
    fn next(&mut self) -> ([f32; BLOCKS], Load<'a, Vector<f32, BM>>) {
        let sfb = self.advance();
        let sfa = self.sfa.tile(self.k, self.row, Peers::ALONE);
        self.k += 1;
        (sfb, sfa)
    }

    /// Loads the scale factors of B at `at`, and goes on to the next k tile. Blocks behind the last row of B get 0.
    #[isa::forceinline]
    fn advance(&mut self) -> [f32; BLOCKS] {
        let value = |block| self.sfb.get(self.at + block * self.pitch).unwrap_or(0.0);
        let values = core::array::from_fn(value);
        self.at += 1;
        core::mem::replace(&mut self.next, values)
    }
}

/// The value number `block`, or the last one. They stay in registers, which have no index at run time.
#[isa::forceinline]
fn of_block<const BLOCKS: usize>(values: &[f32; BLOCKS], block: u32) -> f32 {
    let later = values.iter().enumerate().skip(1);
    later.fold(values[0], |of, (i, value)| if block >= i as u32 { *value } else { of })
}

impl<A, B, Cl, const BM: usize, const COUNT: usize, const UNIT: usize, const BLOCKS: usize>
    ScaleConfig<A, B, Cl> for Blockwise<BM, COUNT, UNIT, BLOCKS>
where
    A: TileShape,
    B: TileShape,
    Cl: ClusterShape,
{
    type Slot = BlockScaled<A, B, Vector<f32, BM>, COUNT, UNIT>;
    type Readers<Ro: Role> = MmaReads<Ro>;
    type Args<'a> = BlockwiseArgs<'a, BM>;
    type Producer<'a> = BlockwiseProducer<'a, BM, BLOCKS>;
    const GRANULARITY: Option<[u32; 3]> = {
        assert!(
            A::COLS == GRANULARITY_K as usize,
            "the granularity of scale factors along K is a k tile: 128 elements of 8 bits"
        );
        Some([1, GRANULARITY_N, GRANULARITY_K])
    };

    #[isa::forceinline]
    fn begin<'a>(
        args: Self::Args<'a>,
        token: &impl Waited,
        at: TileOrigin,
        k: u32,
    ) -> Self::Producer<'a> {
        const { assert!(BLOCKS == blocks(COUNT * UNIT), "the blocks that the tile of B touches") }
        BlockwiseProducer::begin(args, token, [at.row, at.col], k)
    }

    #[isa::forceinline]
    fn load<Tag: Name>(
        producer: &mut Self::Producer<'_>,
        slot: EmptySlot<Self::Slot, Tag>,
        a: Load<'_, A, Cl::SharesA>,
        b: Load<'_, B, Cl::SharesB>,
    ) {
        let (values, sfa) = producer.next();
        let sfb = core::array::from_fn(|unit| {
            of_block(&values, (producer.offset + (unit * UNIT) as u32) / GRANULARITY_N)
        });
        slot.load((a, b, sfa, sfb));
    }
}

/// [`Blockwise`] with swap_ab. The kernel's B is the product's A: each row of its tile has a scale factor. The
/// kernel's A is the product's B: its tile lies within one block of 128 rows. A vector has `V` scale factors ([`vector()`]), and a
/// lane has `LANE` columns, a quarter of those of the tile.
pub struct BlockwiseSwapAb<const V: usize, const LANE: usize>;

/// The scale factors of a vector for `rows` rows: whole lines of 128 bytes.
#[must_use]
pub const fn vector(rows: usize) -> usize {
    rows.next_multiple_of(32)
}

impl<A, B, Cl, const V: usize, const LANE: usize> ScaleConfig<A, B, Cl> for BlockwiseSwapAb<V, LANE>
where
    A: TileShape,
    B: TileShape,
    Cl: ClusterShape,
{
    type Slot = BlockScaledSwapAb<A, B, Vector<f32, V>, LANE>;
    type Readers<Ro: Role> = MmaReads<Ro>;
    type Args<'a> = BlockwiseArgs<'a, V>;
    type Producer<'a> = BlockwiseProducer<'a, V, 1>;
    const GRANULARITY: Option<[u32; 3]> = {
        assert!(
            A::COLS == GRANULARITY_K as usize,
            "the granularity of scale factors along K is a k tile: 128 elements of 8 bits"
        );
        assert!(
            (GRANULARITY_N as usize).is_multiple_of(A::ROWS),
            "with swap_ab the tile of the kernel's A has one scale factor: 64 or 128 rows"
        );
        Some([1, GRANULARITY_N, GRANULARITY_K])
    };

    #[isa::forceinline]
    fn begin<'a>(
        args: Self::Args<'a>,
        token: &impl Waited,
        at: TileOrigin,
        k: u32,
    ) -> Self::Producer<'a> {
        BlockwiseProducer::begin(args, token, [at.col, at.row], k)
    }

    #[isa::forceinline]
    fn load<Tag: Name>(
        producer: &mut Self::Producer<'_>,
        slot: EmptySlot<Self::Slot, Tag>,
        a: Load<'_, A, Cl::SharesA>,
        b: Load<'_, B, Cl::SharesB>,
    ) {
        let ([of_a], scales) = producer.next();
        slot.load((a, b, scales, of_a));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every tile of every width lies in whole units, and touches as many blocks as `blocks` says.
    #[test]
    fn a_tile_touches_that_many_blocks() {
        for bn in (8..=256).step_by(8) {
            let (unit, of) = (unit(bn), GRANULARITY_N as usize);
            let touched = |tile: usize| (bn * tile + bn - 1) / of - bn * tile / of + 1;
            // The tiles begin at the same place of a block again after `of` of them.
            assert_eq!((0..of).map(touched).max(), Some(blocks(bn)), "{bn}");
            for first in (0..of * bn).step_by(unit) {
                assert_eq!(first / of, (first + unit - 1) / of, "{bn}: the unit at {first}");
            }
        }
    }

    #[test]
    fn a_block_is_chosen_without_an_index() {
        let of = |values: &[f32; 3]| [0, 1, 2, 3].map(|block| of_block(values, block).to_bits());
        assert_eq!(of(&[5.0, 6.0, 7.0]), [5f32, 6.0, 7.0, 7.0].map(f32::to_bits));
        assert_eq!(of_block(&[5.0], 1).to_bits(), 5f32.to_bits());
    }
}
