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
/// decides which block a unit belongs to, and the type of the slot which unit a column of D belongs to.
pub struct Blockwise<const BM: usize, const COUNT: usize, const UNIT: usize>;

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

/// The producer's position in the scale factors of a tile.
pub struct BlockwiseProducer<'a, const BM: usize, const COUNT: usize> {
    sfa: &'a MapSfa<BM>,
    row: u32,
    k: u32,
    sfb: isa::slice::DeviceSlice<'a, f32>,
    /// Where the scale factor of each unit lies for the next k tile.
    at: [usize; COUNT],
    /// The scale factors of the next k tile: they are loaded one k tile before they are stored.
    next: [f32; COUNT],
}

impl<'a, const BM: usize, const COUNT: usize> BlockwiseProducer<'a, BM, COUNT> {
    /// Begins a tile with the rows of the product's A from `row` on, and the blocks `blocks` of its B.
    #[isa::forceinline]
    fn begin(
        args: BlockwiseArgs<'a, BM>,
        token: &impl Waited,
        row: u32,
        k: u32,
        blocks: [usize; COUNT],
    ) -> Self {
        let at = blocks.map(|block| block * args.sfb.pitch as usize + k as usize);
        let sfb = args.sfb.values.by(token);
        let mut producer = Self { sfa: args.sfa, row, k, sfb, at, next: [0.0; COUNT] };
        producer.advance();
        producer
    }

    /// The scale factors of the next k tile: those of B, and the load of those of A.
    #[isa::forceinline]
    fn next(&mut self) -> ([f32; COUNT], Load<'a, Vector<f32, BM>>) {
        let sfb = self.advance();
        let sfa = self.sfa.tile(self.k, self.row, Peers::ALONE);
        self.k += 1;
        (sfb, sfa)
    }

    /// Loads the scale factors of B at `at`, and goes on to the next k tile. Units behind the last row of B get 0.
    #[isa::forceinline]
    fn advance(&mut self) -> [f32; COUNT] {
        let values = self.at.map(|at| self.sfb.get(at).unwrap_or(0.0));
        for at in &mut self.at {
            *at += 1;
        }
        core::mem::replace(&mut self.next, values)
    }
}

impl<A, B, Cl, const BM: usize, const COUNT: usize, const UNIT: usize> ScaleConfig<A, B, Cl>
    for Blockwise<BM, COUNT, UNIT>
where
    A: TileShape,
    B: TileShape,
    Cl: ClusterShape,
{
    type Slot = BlockScaled<A, B, Vector<f32, BM>, COUNT, UNIT>;
    type Readers<Ro: Role> = MmaReads<Ro>;
    type Args<'a> = BlockwiseArgs<'a, BM>;
    type Producer<'a> = BlockwiseProducer<'a, BM, COUNT>;
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
        let block = |unit: usize| (at.col as usize + unit * UNIT) / GRANULARITY_N as usize;
        BlockwiseProducer::begin(args, token, at.row, k, core::array::from_fn(block))
    }

    #[isa::forceinline]
    fn load<Tag: Name>(
        producer: &mut Self::Producer<'_>,
        slot: EmptySlot<Self::Slot, Tag>,
        a: Load<'_, A, Cl::SharesA>,
        b: Load<'_, B, Cl::SharesB>,
    ) {
        let (sfb, sfa) = producer.next();
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
        let block = (at.row / GRANULARITY_N) as usize;
        BlockwiseProducer::begin(args, token, at.col, k, [block])
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
