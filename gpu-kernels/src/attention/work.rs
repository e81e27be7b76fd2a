//! The tiles and blocks of an attention kernel's CTA, and the masks of its scores.
#![forbid(unsafe_code)]

use super::args::{AttentionArgs, END, ENTRY_QUADS, Entry, GROUP_ROWS, Matrix, Part, TileRows};
use super::{Place, Sequences};
use core::ops::Range;
use isa::wgmma::{M64, Shape};
use pipeline::cta::{ClusterCoord, ClusterShape, Role, Warpgroup};
use pipeline::mma::Accumulator;

/// A tile of queries, and the blocks of keys that a CTA multiplies it with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work<Sq: Sequences> {
    /// The queries.
    pub rows: TileRows,
    /// The head of the queries, and the sequence.
    pub place: Matrix,
    /// The head of the keys and values, and the sequence.
    pub keys: Matrix,
    /// The blocks that some query of the tile sees, or a part of these.
    pub blocks: Range<u32>,
    /// Which part it is.
    pub part: Part,
    /// What is known of the sequence.
    pub sequence: Sq::Info,
}

impl<Sq: Sequences> Work<Sq> {
    /// The first query of warp group `group`, if the group has any.
    #[isa::forceinline]
    pub fn first_row(&self, group: u32) -> u32 {
        self.rows.first() + group * GROUP_ROWS
    }

    /// The row of the sequence's query `row` in the tensor map of Q, and the coordinates behind it.
    #[isa::forceinline]
    pub fn queries_at(&self, row: u32) -> (u32, Sq::Coords) {
        Sq::queries_at(&self.sequence, self.place, row)
    }

    /// The row of the result of query `row` in the tensor map of O, and the coordinates behind it.
    #[isa::forceinline]
    pub fn results_at(&self, args: &AttentionArgs<'_>, row: u32) -> (u32, [u32; 2]) {
        Sq::results_at(args, &self.sequence, self.place, row)
    }

    /// The row of key `key` in the tensor maps of K and V, and the coordinates behind it.
    #[isa::forceinline]
    pub fn keys_at(&self, key: u32) -> (u32, Sq::Coords) {
        Sq::keys_at(&self.sequence, self.keys, key)
    }

    /// The key on the diagonal of query 0.
    #[isa::forceinline]
    pub fn diagonal(&self, args: &AttentionArgs<'_>) -> i32 {
        let [q, kv] = Sq::lengths(args, &self.sequence);
        kv as i32 - q as i32
    }

    /// The keys that query `row` sees.
    #[isa::forceinline]
    pub fn seen(&self, args: &AttentionArgs<'_>, row: u32) -> (i32, i32) {
        let diagonal = row as i32 + self.diagonal(args);
        let end = diagonal + args.right as i32 + 1;
        let keys = Sq::lengths(args, &self.sequence)[1];
        ((diagonal - args.left as i32).max(0), end.min(keys as i32))
    }

    /// The end of the blocks that some query of warp group `group` sees. A group that sees none has the first one, so
    /// that all groups have scores.
    #[isa::forceinline]
    pub fn end<const BN: usize>(&self, args: &AttentionArgs<'_>, group: u32) -> u32 {
        let queries = Sq::lengths(args, &self.sequence)[0];
        let last = (self.first_row(group) + GROUP_ROWS).min(queries) - 1;
        let has = group < self.rows.groups();
        let keys = if has { self.seen(args, last).1.max(0) } else { 0 };
        (keys as u32).div_ceil(BN as u32).clamp(self.blocks.start + 1, self.blocks.end)
    }

    /// The blocks of `BN` keys that every query of warp group `group` sees whole. Those before them need the mask
    /// [`Window`], those behind them and not before them [`End`].
    #[isa::forceinline]
    pub fn plain_blocks<const BN: usize>(
        &self,
        args: &AttentionArgs<'_>,
        group: u32,
    ) -> Range<u32> {
        let first = self.first_row(group);
        let (from, end) =
            (self.seen(args, first + GROUP_ROWS - 1).0, self.seen(args, first).1.max(0));
        (from as u32).div_ceil(BN as u32)..end as u32 / BN as u32
    }

    /// The place of the scores of warp group `group` with block `block` of `BN` keys.
    #[isa::forceinline]
    pub fn place<const BN: usize>(
        &self,
        args: &AttentionArgs<'_>,
        group: u32,
        block: u32,
    ) -> Place {
        let [head, batch] = self.place.coords();
        Place {
            batch,
            head,
            query: self.first_row(group),
            row_heads: 0,
            key: block * BN as u32,
            diagonal: self.diagonal(args),
        }
    }
}

/// Which keys of a block a warp group's queries may not see. It is a type, so that a loop has no branch on it.
pub trait Mask {
    /// Hides the scores at `at` of keys that their query does not see.
    fn hide<Sq: Sequences, Ro: Role, Cl: ClusterShape, const BN: usize>(
        args: &AttentionArgs<'_>,
        work: &Work<Sq>,
        group: &Warpgroup<Ro, Cl>,
        scores: &mut Accumulator<BN>,
        at: Place,
    ) where
        M64<BN>: Shape;
}

/// Every query sees every key of the block.
pub enum Plain {}
/// Every query sees the block from its first key to some key: the diagonal of a causal mask, and the last keys of a
/// sequence.
pub enum End {}
/// Every query sees some keys of the block.
pub enum Window {}

impl Mask for Plain {
    #[isa::forceinline]
    fn hide<Sq: Sequences, Ro: Role, Cl: ClusterShape, const BN: usize>(
        _args: &AttentionArgs<'_>,
        _work: &Work<Sq>,
        _group: &Warpgroup<Ro, Cl>,
        _scores: &mut Accumulator<BN>,
        _at: Place,
    ) where
        M64<BN>: Shape,
    {
    }
}

macro_rules! masks {
    ($($mask:ty: |$seen:ident, $key:ident| $from:expr;)+) => {$(
        impl Mask for $mask {
            #[isa::forceinline]
            fn hide<Sq: Sequences, Ro: Role, Cl: ClusterShape, const BN: usize>(
                args: &AttentionArgs<'_>,
                work: &Work<Sq>,
                group: &Warpgroup<Ro, Cl>,
                scores: &mut Accumulator<BN>,
                at: Place,
            ) where
                M64<BN>: Shape,
            {
                let $key = at.key(0) as i32;
                let seen = group.rows().map(|row| {
                    let $seen = work.seen(args, at.query(row));
                    ($from, $seen.1 - $key)
                });
                scores.mask(group, seen);
            }
        }
    )+};
}
masks! {
    End: |seen, key| i32::MIN;
    Window: |seen, key| seen.0 - key;
}

/// The tiles of a CTA's list, in order. No grid writes the list, so it is there before the wait.
///
/// The first word of an entry is on its way while the entry before is computed, and brings the other words into the L1
/// cache: a warp group that waited for the L2 cache between two tiles would leave the tensor cores idle.
pub struct Tiles<'a, Sq> {
    args: &'a AttentionArgs<'a>,
    sequences: Sq,
    at: u32,
    /// The first word of the next entry.
    rows: u32,
}

impl<'a, Sq: Sequences> Tiles<'a, Sq> {
    /// The list of the CTA at `at`.
    #[isa::forceinline]
    pub fn new<Cl: ClusterShape>(
        args: &'a AttentionArgs<'a>,
        sequences: Sq,
        at: ClusterCoord<Cl>,
    ) -> Self {
        let at = at.cluster_id() * args.list * ENTRY_QUADS;
        Self { args, sequences, at, rows: quad(args, at)[0] }
    }
}

/// A quad of the list.
#[isa::forceinline]
fn quad(args: &AttentionArgs<'_>, at: u32) -> [u32; 4] {
    args.work.all().get(at as usize).unwrap_or([END; 4])
}

impl<Sq: Sequences> Iterator for Tiles<'_, Sq> {
    type Item = Work<Sq>;
    #[isa::forceinline]
    fn next(&mut self) -> Option<Work<Sq>> {
        if self.rows == END {
            return None;
        }
        let words = [0, 1].map(|i| quad(self.args, self.at + i));
        let Entry { place, keys, blocks, part, .. } = Entry::of_words(words);
        let rows = TileRows(self.rows);
        self.at += ENTRY_QUADS;
        self.rows = quad(self.args, self.at)[0];
        let sequence = self.sequences.info(place.coords()[1]);
        Some(Work { rows, place, keys, blocks, part, sequence })
    }
}
