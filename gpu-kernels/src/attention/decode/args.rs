//! What a launch tells the decode kernel, and the work of its CTAs.
#![forbid(unsafe_code)]

use crate::attention::Place;
use crate::attention::args::Matrix;
use core::ops::Range;
use isa::kernel::KernelArg;
use pipeline::grid::{
    ConstantSlice, DependentSlice, DependentSliceMut, SplitPart, SplitTiles, Waited,
};
use pipeline::tile::RaggedRows;

/// Rows of a tile.
pub const ROWS: u32 = 64;
/// Quads of words of an entry of the work list.
pub const ENTRY_QUADS: u32 = 3;
/// No further entry.
pub const END: u32 = u32::MAX;

/// What a launch tells the kernel.
///
/// A tile has the queries of up to 64 heads that share their keys: row r is head r mod 2^`row_heads` of these, and
/// query r div 2^`row_heads`. Rows of heads or queries that do not exist are computed and not written.
///
/// Query i of a sequence of n keys has its diagonal at key i + n - `seq_q`. It sees the keys from `left` before the
/// diagonal to `right` behind it.
///
/// The keys of a sequence lie in pages of `page_rows` rows. Without a block table each sequence has one page, whose
/// number is that of the sequence.
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct DecodeArgs<'a> {
    /// [`Entry::words`] of all entries. Entry c is the first one of CTA c.
    pub work: ConstantSlice<'a, [u32; 4]>,
    /// The page of each `page_rows` keys, [sequence, `sequence_pages`]; empty without pages.
    pub block_table: DependentSlice<'a, u32>,
    /// O, in pairs of elements.
    pub o: DependentSliceMut<'a, u32>,
    /// The log-sum-exp of each query's scores, [sequence, head, query]. Empty if it is not asked for.
    pub lse: DependentSliceMut<'a, f32>,
    /// The parts of all tiles.
    pub tiles: SplitTiles<'a>,
    /// Pairs from one sequence, head and query of O to the next.
    pub o_strides: [u64; 3],
    /// Pages of a sequence in the block table.
    pub sequence_pages: u32,
    /// Pages of K and V.
    pub pages: u32,
    /// Keys of a page, a multiple of the block.
    pub page_rows: u32,
    /// Rows from one page of K to the next. A page's matrix in the tensor map is that of the row behind its last key.
    pub k_page: u32,
    /// The same of V.
    pub v_page: u32,
    /// Queries of a sequence.
    pub seq_q: u32,
    /// Heads of the queries.
    pub heads: u32,
    /// Heads of the queries that share a head of keys.
    pub readers: u32,
    /// The logarithm to base 2 of a tile's heads.
    pub row_heads: u32,
    /// Columns of a head.
    pub head_dim: u32,
    /// Keys before the diagonal that a query sees; [`UNBOUNDED`](crate::attention::args::UNBOUNDED) for all.
    pub left: u32,
    /// Keys behind the diagonal that a query sees; as `left`.
    pub right: u32,
    /// What scores are multiplied by.
    pub scale: f32,
    /// `scale` times log2(e): the factor of the scores in exponents of 2.
    pub scale_log2: f32,
    /// The bound of a soft cap on the scores; 0 for none.
    pub cap: f32,
}

/// A part of a tile: the rows of a tile, and a range of the keys that they see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The first query.
    pub query: u32,
    /// The first of the heads, counted from the first one that shares the keys.
    pub head: u32,
    /// The head of the keys, and the sequence.
    pub place: Matrix,
    /// The keys of the sequence.
    pub keys: u32,
    /// The blocks of keys: every `step`th one, beginning with the first.
    pub blocks: Range<u32>,
    /// From one block of the part to the next. The parts of a tile that take turns read memory in a row together.
    pub step: u32,
    /// Which part of the tile it is.
    pub part: SplitPart,
    /// The CTA's next entry, or [`END`].
    pub next: u32,
}

impl Entry {
    /// The words of the entry.
    pub const fn words(&self) -> [[u32; 4]; ENTRY_QUADS as usize] {
        let SplitPart { first, part, parts } = self.part;
        [
            [self.query, self.head, self.place.0, self.keys],
            [self.blocks.start, self.blocks.end, first, part],
            [parts, self.next, self.step, 0],
        ]
    }

    /// The blocks of keys, in order.
    #[isa::forceinline]
    pub fn each_block(&self) -> impl Iterator<Item = u32> + use<> {
        let (mut at, end, step) = (self.blocks.start, self.blocks.end, self.step);
        core::iter::from_fn(move || {
            let block = at;
            at += step;
            (block < end).then_some(block)
        })
    }

    /// The keys that row `row` of the tile sees, from the first to before the last.
    #[isa::forceinline]
    pub fn seen(&self, args: &DecodeArgs<'_>, row: u32) -> (i32, i32) {
        let query = self.query + (row >> args.row_heads);
        let diagonal = query as i32 + self.keys as i32 - args.seq_q as i32;
        let end = diagonal + args.right as i32 + 1;
        ((diagonal - args.left as i32).max(0), end.min(self.keys as i32))
    }

    /// The place of the tile's scores with the block of keys that begins with key `key`.
    #[isa::forceinline]
    pub fn scores_at(&self, args: &DecodeArgs<'_>, key: u32) -> Place {
        let [kv_head, batch] = self.place.coords();
        Place {
            batch,
            head: kv_head * args.readers + self.head,
            query: self.query,
            row_heads: args.row_heads,
            key,
            diagonal: self.keys as i32 - args.seq_q as i32,
        }
    }

    /// Rows of the tile from the first one to the last one that exists.
    #[isa::forceinline]
    pub fn rows(&self, args: &DecodeArgs<'_>) -> u32 {
        let left = (args.seq_q - self.query).min(ROWS);
        (left << args.row_heads).min(ROWS)
    }

    /// The head and the query of row `row`; `None` if there is no such row.
    #[isa::forceinline]
    pub fn row(&self, args: &DecodeArgs<'_>, row: u32) -> Option<(u32, u32)> {
        let (head, query) =
            (self.head + (row & ((1 << args.row_heads) - 1)), row >> args.row_heads);
        let [kv_head, _] = self.place.coords();
        (head < args.readers && self.query + query < args.seq_q)
            .then_some((kv_head * args.readers + head, self.query + query))
    }

    /// The index of the first pair of a head's query in O.
    #[isa::forceinline]
    pub fn o_at(&self, args: &DecodeArgs<'_>, head: u32, query: u32) -> usize {
        let [_, sequence] = self.place.coords();
        let [sequences, heads, queries] = args.o_strides;
        let line = u64::from(sequence) * sequences;
        (line + u64::from(head) * heads + u64::from(query) * queries) as usize
    }

    /// The index of the log-sum-exp of a head's query.
    #[isa::forceinline]
    pub fn lse_at(&self, args: &DecodeArgs<'_>, head: u32, query: u32) -> usize {
        let [_, sequence] = self.place.coords();
        ((sequence * args.heads + head) * args.seq_q + query) as usize
    }

    /// The row of block `block` of `BN` keys in the tensor map of K or V, whose pages are `step` rows apart, and the coordinates
    /// behind it.
    #[isa::forceinline]
    pub fn keys_at<const BN: usize>(
        &self,
        args: &DecodeArgs<'_>,
        page: (u32, u32),
        block: u32,
        step: u32,
    ) -> (u32, [u32; 3]) {
        let (index, page) = page;
        let first = index * args.page_rows;
        let used = (self.keys - first).min(args.page_rows);
        let row = block * BN as u32 - first;
        // There is nothing at the end before the first one, so TMA delivers zeros.
        let end = if page < args.pages { page * step + used } else { u32::MAX };
        RaggedRows { end, rows: used }.row(row, self.place.coords()[0])
    }

    /// The page of all blocks without a block table.
    #[isa::forceinline]
    pub fn only_page(&self) -> (u32, u32) {
        (0, self.place.coords()[1])
    }

    /// The page of block `block`: its index in the sequence, and its number.
    #[isa::forceinline]
    pub fn page<const BN: usize>(
        &self,
        args: &DecodeArgs<'_>,
        block: u32,
        token: &impl Waited,
    ) -> (u32, u32) {
        if args.block_table.is_empty() {
            return self.only_page();
        }
        let [_, sequence] = self.place.coords();
        let index = block * BN as u32 / args.page_rows;
        let at = sequence as usize * args.sequence_pages as usize + index as usize;
        (index, args.block_table.by(token).get(at).unwrap_or(END))
    }
}

/// The entries of a CTA's list, in order. No grid writes the list, so it is there before the wait.
pub struct Entries<'a> {
    args: &'a DecodeArgs<'a>,
    at: u32,
}

impl<'a> Entries<'a> {
    /// The list of CTA `cta`.
    #[isa::forceinline]
    pub fn new(args: &'a DecodeArgs<'a>, cta: u32) -> Self {
        Self { args, at: cta }
    }
}

impl Iterator for Entries<'_> {
    type Item = Entry;
    #[isa::forceinline]
    fn next(&mut self) -> Option<Entry> {
        if self.at == END {
            return None;
        }
        let list = self.args.work.all();
        let first = self.at as usize * ENTRY_QUADS as usize;
        let [a, b, c] = [0, 1, 2].map(|i| list.get(first + i).unwrap_or([0; 4]));
        self.at = c[1];
        if c[0] == 0 {
            // The CTA has nothing to do.
            return None;
        }
        Some(Entry {
            query: a[0],
            head: a[1],
            place: Matrix(a[2]),
            keys: a[3],
            blocks: b[0]..b[1],
            step: c[2],
            part: SplitPart { first: b[2], part: b[3], parts: c[0] },
            next: c[1],
        })
    }
}
