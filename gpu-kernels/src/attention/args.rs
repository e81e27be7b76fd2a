//! What a launch tells the attention kernel, and the tiles and blocks that follow from it.
#![forbid(unsafe_code)]

use super::Place;
use super::kernel::{BM, GROUP_ROWS};
use core::ops::Range;
use isa::kernel::KernelArg;
use pipeline::cta::{ClusterCoord, ClusterShape, Role, Warpgroup};
use pipeline::grid::{DependentSlice, DependentSliceMut, Waited};
use pipeline::mma::Rows;

/// The end of a CTA's list of work.
pub const END: u32 = u32::MAX;
/// Words of an entry of the list.
pub const ENTRY: u32 = 2;
/// A window without a bound.
pub const UNBOUNDED: u32 = 1 << 30;

/// What a launch tells the kernel.
///
/// Query i of a sequence has its diagonal at key i + `seq_kv` - `seq_q`. It sees the keys from `left` before the
/// diagonal to `right` behind it. A causal mask has `right` = 0.
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct AttentionArgs<'a> {
    /// Each CTA's list of `list` entries of two words: the number of the tile of queries among those of its sequence;
    /// the head in the lower half, the sequence in the upper half. A first word of [`END`] ends a list.
    pub work: DependentSlice<'a, u32>,
    /// The log-sum-exp of each query's scores, [sequence, head, query]. Empty if it is not asked for.
    pub lse: DependentSliceMut<'a, f32>,
    /// Entries of a CTA's list, with its end.
    pub list: u32,
    /// Queries of a sequence.
    pub seq_q: u32,
    /// Keys of a sequence.
    pub seq_kv: u32,
    /// Heads of the queries.
    pub heads: u32,
    /// Heads of the queries that share a head of keys and values.
    pub heads_per_kv: u32,
    /// Keys before the diagonal that a query sees; [`UNBOUNDED`] for all.
    pub left: u32,
    /// Keys behind the diagonal that a query sees; [`UNBOUNDED`] for all.
    pub right: u32,
    /// What scores are multiplied by.
    pub scale: f32,
}

/// A tile of queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Its number among the tiles of its sequence and head.
    pub tile: u32,
    /// The head of the queries.
    pub head: u32,
    /// The sequence.
    pub batch: u32,
}

impl AttentionArgs<'_> {
    /// The key on the diagonal of query 0.
    #[inline(always)]
    pub fn diagonal(&self) -> i32 {
        self.seq_kv as i32 - self.seq_q as i32
    }

    /// The keys that query `row` sees.
    #[inline(always)]
    pub fn seen(&self, row: u32) -> (i32, i32) {
        let diagonal = row as i32 + self.diagonal();
        let end = diagonal + self.right as i32 + 1;
        ((diagonal - self.left as i32).max(0), end.min(self.seq_kv as i32))
    }
}

impl Work {
    /// The first query.
    #[inline(always)]
    pub fn row(&self) -> u32 {
        self.tile * BM as u32
    }

    /// The blocks of `BN` keys that some query of the tile sees.
    #[inline(always)]
    pub fn blocks<const BN: usize>(&self, args: &AttentionArgs<'_>) -> Range<u32> {
        let (first, last) = (self.row(), (self.row() + BM as u32).min(args.seq_q) - 1);
        let (from, end) = (args.seen(first).0, args.seen(last).1);
        if end <= from {
            return 0..0;
        }
        from as u32 / BN as u32..(end as u32).div_ceil(BN as u32)
    }

    /// The blocks of `BN` keys that every query of warp group `group` sees whole, so that they need no mask.
    #[inline(always)]
    pub fn plain_blocks<const BN: usize>(
        &self,
        args: &AttentionArgs<'_>,
        group: u32,
    ) -> Range<u32> {
        let first = self.row() + group * GROUP_ROWS;
        let (from, end) = (args.seen(first + GROUP_ROWS - 1).0, args.seen(first).1.max(0));
        (from as u32).div_ceil(BN as u32)..end as u32 / BN as u32
    }

    /// The place of the queries in their tensor map.
    #[inline(always)]
    pub fn queries(&self) -> [u32; 2] {
        [self.head, self.batch]
    }

    /// The place of the keys and values in their tensor maps.
    #[inline(always)]
    pub fn keys(&self, args: &AttentionArgs<'_>) -> [u32; 2] {
        [self.head / args.heads_per_kv, self.batch]
    }

    /// The place of the scores of warp group `group` with block `block` of `BN` keys.
    #[inline(always)]
    pub fn place<const BN: usize>(
        &self,
        args: &AttentionArgs<'_>,
        group: u32,
        block: u32,
    ) -> Place {
        Place {
            batch: self.batch,
            head: self.head,
            query: self.row() + group * GROUP_ROWS,
            key: block * BN as u32,
            diagonal: args.diagonal(),
        }
    }
}

/// The columns of a block of keys that each of this thread's rows sees.
#[inline(always)]
pub fn seen_columns<Ro: Role, Cl: ClusterShape>(
    args: &AttentionArgs<'_>,
    group: &Warpgroup<Ro, Cl>,
    at: Place,
) -> Rows<(i32, i32)> {
    group.rows().map(|row| {
        let (from, end) = args.seen(at.query + row);
        (from - at.key as i32, end - at.key as i32)
    })
}

/// The tiles of a CTA's list, in order.
pub struct Tiles<'a> {
    list: isa::slice::DeviceSlice<'a, u32>,
    at: u32,
}

impl<'a> Tiles<'a> {
    /// The list of the CTA at `at`, for a thread that has waited for the primary grid.
    #[inline(always)]
    pub fn new<Cl: ClusterShape>(
        args: &AttentionArgs<'a>,
        at: ClusterCoord<Cl>,
        token: &impl Waited,
    ) -> Self {
        Self { list: args.work.by(token), at: at.cluster_id() * args.list * ENTRY }
    }
}

impl Iterator for Tiles<'_> {
    type Item = Work;
    #[inline(always)]
    fn next(&mut self) -> Option<Work> {
        let tile = self.list.get(self.at as usize).unwrap_or(END);
        if tile == END {
            return None;
        }
        let place = self.list.get(self.at as usize + 1).unwrap_or(0);
        self.at += ENTRY;
        Some(Work { tile, head: place & 0xffff, batch: place >> 16 })
    }
}
