//! What a launch tells the attention kernel.
#![forbid(unsafe_code)]

use core::ops::Range;
use isa::kernel::KernelArg;
use pipeline::grid::{ConstantSlice, DependentSliceMut, SplitPart, SplitTiles};

/// Queries of a warp group.
pub const GROUP_ROWS: u32 = 64;
/// The end of a CTA's list of work.
pub const END: u32 = u32::MAX;
/// Quads of words of an entry of the list.
pub const ENTRY_QUADS: u32 = 2;
/// A window without a bound.
pub const UNBOUNDED: u32 = 1 << 30;

/// What a launch tells the kernel.
///
/// Query i of a sequence has its diagonal at key i + `seq_kv` - `seq_q`. It sees the keys from `left` before the
/// diagonal to `right` behind it. A causal mask has `right` = 0.
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct AttentionArgs<'a> {
    /// [`Entry::words`] of each CTA's list of `list` entries. A first word of [`END`] ends a list.
    pub work: ConstantSlice<'a, [u32; 4]>,
    /// Natural logarithm of each query's sum of exponentials of its scaled and changed scores, f32: [sequence, head, query];
    /// for [packed](super::Packed) sequences [head, query]. Empty if it is not asked for.
    pub lse: DependentSliceMut<'a, f32>,
    /// The parts of tiles whose keys are split among CTAs. A split tile has `n` · `parts` slots. Warp group g of n has
    /// `parts` of them in a row, the g-th such run.
    pub tiles: SplitTiles<'a>,
    /// Entries of a CTA's list, with its end.
    pub list: u32,
    /// Queries of a sequence, or of the longest one.
    pub seq_q: u32,
    /// Keys of a sequence, or of the longest one.
    pub seq_kv: u32,
    /// Heads of the queries.
    pub heads: u32,
    /// Keys before the diagonal that a query sees; [`UNBOUNDED`] for all.
    pub left: u32,
    /// Keys behind the diagonal that a query sees; [`UNBOUNDED`] for all.
    pub right: u32,
    /// What scores are multiplied by.
    pub scale: f32,
    /// `scale` times log2(e): the factor of the scores in exponents of 2.
    pub scale_log2: f32,
}

/// A tile of queries, and the keys that it is multiplied with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The queries.
    pub rows: TileRows,
    /// The head of the queries, and the sequence.
    pub place: Matrix,
    /// The head of the keys and values, and the sequence.
    pub keys: Matrix,
    /// The blocks of keys: numbers of blocks of a kernel's `BN` keys, counted from the sequence's first key.
    pub blocks: Range<u32>,
    /// Which part of the tile these blocks are.
    pub part: Part,
}

/// The queries of a tile, in one register: the first one, a multiple of 64, and how many warp groups have queries. Warp group
/// g has 64 of them from `first + 64 * g` on, or as many as the sequence has there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileRows(pub(super) u32);

impl TileRows {
    /// Queries from `first` on, for `groups` warp groups, fewer than 64.
    #[must_use]
    pub const fn new(first: u32, groups: u32) -> Self {
        assert!(
            first.is_multiple_of(GROUP_ROWS) && groups < GROUP_ROWS,
            "the first query is a multiple of 64, and there are fewer than 64 warp groups"
        );
        Self(first | groups)
    }

    /// The first query, counted from the sequence's first.
    #[isa::forceinline]
    #[must_use]
    pub const fn first(self) -> u32 {
        self.0 & !(GROUP_ROWS - 1)
    }

    /// The warp groups that have queries. The others of the CTA compute as these do, and store nothing.
    #[isa::forceinline]
    #[must_use]
    pub const fn groups(self) -> u32 {
        self.0 & (GROUP_ROWS - 1)
    }
}

/// Which part of a tile an entry has, in one register: the part, the number of parts, and the slot of part 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part(u32);

impl Part {
    /// Most parts of a tile.
    pub const MOST: u32 = 255;
    /// A tile that is not split.
    pub const WHOLE: Self = Self(1 << 8);

    /// Part `part.part` of `part.parts`, whose part 0 has slot `part.first` among those of one warp group for each part. The
    /// number of parts is at most [`Part::MOST`], and the slot is below 2^16: the host splits no tile otherwise.
    pub const fn new(part: SplitPart) -> Self {
        Self(part.part | part.parts << 8 | part.first << 16)
    }

    /// The part of warp group `group` of `groups`, which has a tile of 64 rows of its own; `None` for a whole tile.
    #[isa::forceinline]
    pub fn of_group(self, group: u32, groups: u32) -> Option<SplitPart> {
        let (part, parts, first) = (self.0 & 0xff, self.0 >> 8 & 0xff, self.0 >> 16);
        (parts > 1).then_some(SplitPart { first: first * groups + group * parts, part, parts })
    }
}

impl Entry {
    /// The words of the entry.
    pub const fn words(&self) -> [[u32; 4]; ENTRY_QUADS as usize] {
        let Self { rows, place, keys, blocks, part } = self;
        [[rows.0, place.0, keys.0, part.0], [blocks.start, blocks.end, 0, 0]]
    }

    /// The entry of such words.
    #[isa::forceinline]
    pub const fn of_words(words: [[u32; 4]; ENTRY_QUADS as usize]) -> Self {
        let [[rows, place, keys, part], [start, end, ..]] = words;
        let (rows, place, keys, part) = (TileRows(rows), Matrix(place), Matrix(keys), Part(part));
        Self { rows, place, keys, blocks: start..end, part }
    }
}

/// The place of a matrix in a tensor map of (columns, rows, head, sequence): the head in the lower half, the sequence
/// in the upper half. One register holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrix(pub u32);

impl Matrix {
    /// The head and the sequence.
    #[isa::forceinline]
    pub fn coords(self) -> [u32; 2] {
        [self.0 & 0xffff, self.0 >> 16]
    }
}
