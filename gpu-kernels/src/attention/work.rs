//! The tiles and blocks of an attention kernel's CTA, and the masks of its scores.
#![forbid(unsafe_code)]

use super::args::{AttentionArgs, END, ENTRY, GROUP_ROWS, Matrix};
use super::{Place, Sequences};
use core::ops::Range;
use isa::wgmma::{M64, Shape};
use pipeline::cta::{ClusterCoord, ClusterShape, Role, Warpgroup};
use pipeline::grid::Waited;
use pipeline::mma::Accumulator;

/// A tile of queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work<Sq: Sequences> {
    /// The first query, counted from its sequence's first.
    pub row: u32,
    /// Queries of a tile.
    pub rows: u32,
    /// The head of the queries, and the sequence.
    pub place: Matrix,
    /// The head of the keys and values, and the sequence.
    pub keys: Matrix,
    /// What is known of the sequence.
    pub sequence: Sq::Info,
}

impl<Sq: Sequences> Work<Sq> {
    /// The row and the batch coordinates of the sequence's query `row` in the tensor maps of Q and O.
    #[inline(always)]
    pub fn queries_at(&self, args: &AttentionArgs<'_>, row: u32) -> (u32, [u32; 2]) {
        Sq::queries_at(args, &self.sequence, self.place, row)
    }

    /// The row and the batch coordinates of key `key` in the tensor maps of K and V.
    #[inline(always)]
    pub fn keys_at(&self, args: &AttentionArgs<'_>, key: u32) -> (u32, [u32; 2]) {
        Sq::keys_at(args, &self.sequence, self.keys, key)
    }

    /// The key on the diagonal of query 0.
    #[inline(always)]
    pub fn diagonal(&self, args: &AttentionArgs<'_>) -> i32 {
        let [q, kv] = Sq::lengths(args, &self.sequence);
        kv as i32 - q as i32
    }

    /// The keys that query `row` sees.
    #[inline(always)]
    pub fn seen(&self, args: &AttentionArgs<'_>, row: u32) -> (i32, i32) {
        let diagonal = row as i32 + self.diagonal(args);
        let end = diagonal + args.right as i32 + 1;
        let keys = Sq::lengths(args, &self.sequence)[1];
        ((diagonal - args.left as i32).max(0), end.min(keys as i32))
    }

    /// The blocks of `BN` keys that some query of the tile sees.
    #[inline(always)]
    pub fn blocks<const BN: usize>(&self, args: &AttentionArgs<'_>) -> Range<u32> {
        let queries = Sq::lengths(args, &self.sequence)[0];
        let (first, last) = (self.row, (self.row + self.rows).min(queries) - 1);
        let (from, end) = (self.seen(args, first).0, self.seen(args, last).1);
        if end <= from {
            return 0..0;
        }
        from as u32 / BN as u32..(end as u32).div_ceil(BN as u32)
    }

    /// The blocks of `BN` keys that every query of warp group `group` sees whole. Those before them need the mask
    /// [`Window`], those behind them and not before them [`End`].
    #[inline(always)]
    pub fn plain_blocks<const BN: usize>(
        &self,
        args: &AttentionArgs<'_>,
        group: u32,
    ) -> Range<u32> {
        let first = self.row + group * GROUP_ROWS;
        let (from, end) =
            (self.seen(args, first + GROUP_ROWS - 1).0, self.seen(args, first).1.max(0));
        (from as u32).div_ceil(BN as u32)..end as u32 / BN as u32
    }

    /// The place of the scores of warp group `group` with block `block` of `BN` keys.
    #[inline(always)]
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
            query: self.row + group * GROUP_ROWS,
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
    #[inline(always)]
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
            #[inline(always)]
            fn hide<Sq: Sequences, Ro: Role, Cl: ClusterShape, const BN: usize>(
                args: &AttentionArgs<'_>,
                work: &Work<Sq>,
                group: &Warpgroup<Ro, Cl>,
                scores: &mut Accumulator<BN>,
                at: Place,
            ) where
                M64<BN>: Shape,
            {
                let $key = at.key as i32;
                let seen = group.rows().map(|row| {
                    let $seen = work.seen(args, at.query + row);
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

/// The tiles of a CTA's list, in order.
pub struct Tiles<'a, T, Sq, const BM: usize> {
    args: &'a AttentionArgs<'a>,
    sequences: Sq,
    /// A token of a thread that has waited for the primary grid.
    token: &'a T,
    at: u32,
}

impl<'a, T: Waited, Sq: Sequences, const BM: usize> Tiles<'a, T, Sq, BM> {
    /// The list of the CTA at `at`.
    #[inline(always)]
    pub fn new<Cl: ClusterShape>(
        args: &'a AttentionArgs<'a>,
        sequences: Sq,
        at: ClusterCoord<Cl>,
        token: &'a T,
    ) -> Self {
        Self { args, sequences, token, at: at.cluster_id() * args.list * ENTRY }
    }
}

impl<T: Waited, Sq: Sequences, const BM: usize> Iterator for Tiles<'_, T, Sq, BM> {
    type Item = Work<Sq>;
    #[inline(always)]
    fn next(&mut self) -> Option<Work<Sq>> {
        let list = self.args.work.by(self.token);
        let tile = list.get(self.at as usize).unwrap_or(END);
        if tile == END {
            return None;
        }
        let [place, keys] = [1, 2].map(|i| Matrix(list.get(self.at as usize + i).unwrap_or(0)));
        self.at += ENTRY;
        let sequence = self.sequences.info(self.token, place.coords()[1]);
        let rows = BM as u32;
        Some(Work { row: tile * rows, rows, place, keys, sequence })
    }
}
