//! The attention kernel: persistent, warp-specialised, O = softmax(scale · Q·Kᵀ) · V.
//!
//! ```text
//! warp 0   TMA  Q ──► ring "Q" ─┐
//!          TMA  K ──► ring "K" ─┴► S = Q·Kᵀ ─► mask, softmax ─► P (registers) ─┐
//!          TMA  V ──► ring "V" ────────────────────────────────────────────────┴► O += P·V ─► TMA O
//! ```
//!
//! Each warp group of `Math` has 64 queries of a CTA's tile, and goes through the blocks of keys that they see, from
//! the last one to the first. The product S of a block is issued together with P·V of the block before, and while the
//! tensor cores work on P·V, the group computes the softmax of S. The two groups take turns at issuing, so that one
//! group's softmax also overlaps the other's products. At the end of a tile, the next tile's first S takes the place
//! of the next block's.
//!
//! (FlashAttention-3, Shah et al. 2024: "Pingpong scheduling" and "Intra-warpgroup overlapping of GEMMs and softmax";
//! CUTLASS: example 88.)
#![forbid(unsafe_code)]

use super::Score;
use super::args::{AttentionArgs, Tiles, Work, seen_columns};
use super::softmax::{Softmax, Total};
use core::f32::consts::LOG2_E;
use isa::wgmma::{M64, OperandMajor, Shape};
use pipeline::barrier::NamedSequence;
use pipeline::cta::Unshared;
use pipeline::mma::{AShape, Fragments, Pack, Rows, row_of};
use pipeline::prelude::*;
use pipeline::store::Stores;
use pipeline::tile::{EpilogueElement, KMajor, MnMajor};

names! {
    /// The ring of queries.
    Queries = "Q",
    /// The ring of keys.
    Keys = "K",
    /// The ring of values.
    Values = "V",
    /// The order in which the warp groups issue their products.
    Turns = "turns",
}
roles! {
    /// Loads Q, K and V.
    Load = 1 x 24 registers,
    /// Multiply, 64 queries each.
    Math = 2 x 240 registers,
}

/// Queries of a CTA's tile.
pub const BM: usize = 128;
/// Queries of a warp group.
pub(super) const GROUP_ROWS: u32 = 64;
type Alone = Cluster<1, 1>;
type Group = Warpgroup<Math, Alone>;

/// A tile of queries, a block of keys, and a block of values, `D` wide. V is MN-major: the columns of O, which are the
/// product's N, are contiguous.
pub type QTile<E, const D: usize> = Tile<E, BM, D>;
/// A block of `BN` keys.
pub type KTile<E, const BN: usize, const D: usize> = Tile<E, BN, D>;
/// A block of `BN` values.
pub type VTile<E, const BN: usize, const D: usize> = Tile<E, D, BN, MnMajor>;

/// Queries of all heads and sequences: (head dim, query, head, sequence).
pub type MapQ<E, const D: usize> = TensorMap<QTile<E, D>, Unshared, 4>;
/// Keys.
pub type MapK<E, const BN: usize, const D: usize> = TensorMap<KTile<E, BN, D>, Unshared, 4>;
/// Values.
pub type MapV<E, const BN: usize, const D: usize> = TensorMap<VTile<E, BN, D>, Unshared, 4>;
/// Results, in boxes of a warp group's 64 queries.
pub type MapO<E> = TensorMap<<E as EpilogueElement>::EpilogueTile<64>, Unshared, 4>;

/// The shared memory of a kernel with `QS` tiles of queries, `STAGES` blocks of keys and of values, and `OUT` store
/// buffers for each warp group.
pub type Plan<
    E,
    const BN: usize,
    const D: usize,
    const QS: usize,
    const STAGES: usize,
    const OUT: usize,
> = SmemPlan<(
    Ring<QS, (QTile<E, D>,), Tma, Mma<Math>, Queries, Alone>,
    Ring<STAGES, (KTile<E, BN, D>,), Tma, Mma<Math>, Keys, Alone>,
    Ring<STAGES, (VTile<E, BN, D>,), Tma, Mma<Math>, Values, Alone>,
    StoreBuffers<E, OUT, Math>,
    NamedSequence<Math, Turns>,
)>;
/// A CTA of the kernel.
pub type AttentionCta<
    E,
    const BN: usize,
    const D: usize,
    const QS: usize,
    const STAGES: usize,
    const OUT: usize,
> = Cta<(Load, Math), Alone, Plan<E, BN, D, QS, STAGES, OUT>>;

/// Runs one CTA: all tiles of its list.
#[inline(always)]
pub fn attention<
    E,
    S,
    const BN: usize,
    const D: usize,
    const QS: usize,
    const STAGES: usize,
    const OUT: usize,
>(
    cta: AttentionCta<E, BN, D, QS, STAGES, OUT>,
    q: &MapQ<E, D>,
    k: &MapK<E, BN, D>,
    v: &MapV<E, BN, D>,
    o: &MapO<E>,
    args: &AttentionArgs<'_>,
    score: S,
) where
    E: Pack + Fragments + OperandMajor<KMajor> + OperandMajor<MnMajor>,
    E: EpilogueElement<EpilogueTile<64> = Tile<E, 64, 64>>,
    S: Score,
    M64<BN>: Shape + AShape,
    M64<D>: Shape,
{
    q.prefetch(&cta);
    k.prefetch(&cta);
    v.prefetch(&cta);
    o.prefetch(&cta);
    let (cta, (queries, keys, values, stores, turns)) = cta.init();

    cta.specialize(
        |load| {
            load.elect(|one| {
                let mut queries = queries.producer.by(&one);
                let mut keys = keys.producer.by(&one);
                let mut values = values.producer.by(&one);
                // A block's values are needed after the next block's keys, and are loaded after them.
                let mut late = None;
                for work in Tiles::new(args, one.coord(), &one) {
                    let (blocks, heads) = (work.blocks::<BN>(args), work.keys(args));
                    let last = blocks.end;
                    for block in blocks.rev() {
                        let key = block * BN as u32;
                        keys.acquire().load((k.tile_of(heads, key, 0, Peers::ALONE),));
                        if block + 1 == last {
                            let tile = q.tile_of(work.queries(), work.row(), 0, Peers::ALONE);
                            queries.acquire().load((tile,));
                        }
                        if let Some((heads, key)) = late.replace((heads, key)) {
                            values.acquire().load((v.tile_of(heads, 0, key, Peers::ALONE),));
                        }
                    }
                }
                if let Some((heads, key)) = late {
                    values.acquire().load((v.tile_of(heads, 0, key, Peers::ALONE),));
                }
                queries.tail();
                keys.tail();
                values.tail();
            });
        },
        |group| {
            let mut queries = queries.consumer.by(&group);
            let mut keys = keys.consumer.by(&group);
            let mut values = values.consumer.by(&group);
            let mut turns = turns.by(&group);
            let mut out = Out::<E, D, OUT> { group: &group, stores: stores.by(&group), o, args };
            let mut tiles = Tiles::new(args, group.coord(), &group);
            let scores_of = Scores { group: &group, args, score };

            let Some(mut work) = out.next_with_keys::<BN>(&mut tiles) else {
                return out.stores.tail();
            };
            let (mut scores, (mut q, last)) =
                Accumulator::<BN>::start(&group, (queries.wait(), keys.wait())).finish();
            last.release();
            scores_of.change::<true, BN>(&mut scores, &work, work.blocks::<BN>(args).end - 1);
            let mut softmax = Softmax::first(&group, &mut scores, scores_of.scale());
            let mut p = scores.to_a::<E>();
            loop {
                let mut sum = Accumulator::<D>::zeros();
                let (blocks, plain) =
                    (work.blocks::<BN>(args), work.plain_blocks::<BN>(args, group.index()));
                // A block's scores, behind them the values of the block before.
                macro_rules! steps {
                    ($blocks:expr, masked $masked:literal) => {
                        for block in $blocks.rev() {
                            let key = keys.wait();
                            let turn = turns.wait();
                            let next = Accumulator::<BN>::start(&group, (q.keep(), key));
                            let (next, pv) = next.then_add(sum, (p, values.wait()));
                            turn.pass_on();
                            let (mut scores, (queries, key)) = next.finish();
                            key.release();
                            q = queries;
                            scores_of.change::<$masked, BN>(&mut scores, &work, block);
                            let by = softmax.next(&group, &mut scores);
                            let (before, value) = pv.finish_after(by.0[0] + by.0[1]);
                            value.release();
                            p = scores.to_a();
                            sum = before;
                            sum.map_rows(by, |x, by| x * by);
                        }
                    };
                }
                // Three loops, and not one with a branch in it: ptxas ends the overlap at a branch.
                let (start, last) = (blocks.start, blocks.end - 1);
                let (from, end) = (plain.start.clamp(start, last), plain.end.clamp(start, last));
                steps!(end.max(from)..last, masked true);
                steps!(from..end, masked false);
                steps!(start..from.min(end.max(start)), masked true);
                q.release();

                let Some(next) = out.next_with_keys::<BN>(&mut tiles) else {
                    let (sum, value) = sum.add(&group, (p, values.wait())).finish();
                    value.release();
                    out.write(&work, &sum, softmax.total(&group));
                    break out.stores.tail();
                };
                // The next tile's first block, with this one's last.
                let first = next.blocks::<BN>(args).end - 1;
                macro_rules! seam {
                    (masked $masked:literal) => {{
                        let operands = (queries.wait(), keys.wait());
                        let turn = turns.wait();
                        let next_scores = Accumulator::<BN>::start(&group, operands);
                        let (next_scores, pv) = next_scores.then_add(sum, (p, values.wait()));
                        turn.pass_on();
                        let total = softmax.total(&group);
                        let (mut scores, (queries, key)) = next_scores.finish();
                        key.release();
                        q = queries;
                        scores_of.change::<$masked, BN>(&mut scores, &next, first);
                        softmax = Softmax::first(&group, &mut scores, scores_of.scale());
                        let (sum, value) = pv.finish();
                        value.release();
                        p = scores.to_a();
                        out.write(&work, &sum, total);
                    }};
                }
                if next.plain_blocks::<BN>(args, group.index()).contains(&first) {
                    seam!(masked false);
                } else {
                    seam!(masked true);
                }
                work = next;
            }
        },
    );
}

/// What becomes of the scores of a warp group before the softmax.
struct Scores<'a, S> {
    group: &'a Group,
    args: &'a AttentionArgs<'a>,
    score: S,
}

impl<S: Score> Scores<'_, S> {
    /// The factor of the scores in the exponents, which are those of 2.
    #[inline(always)]
    fn scale(&self) -> f32 {
        if S::CHANGES { LOG2_E } else { self.args.scale * LOG2_E }
    }

    /// Changes the scores of a block, and hides those of keys that a query does not see.
    #[inline(always)]
    fn change<const MASKED: bool, const BN: usize>(
        &self,
        scores: &mut Accumulator<BN>,
        work: &Work,
        block: u32,
    ) where
        M64<BN>: Shape,
    {
        let at = work.place::<BN>(self.args, self.group.index(), block);
        if S::CHANGES {
            scores.map(|x| x * self.args.scale);
            self.score.apply(self.group, scores, at);
        }
        if MASKED {
            scores.mask(self.group, seen_columns(self.args, self.group, at));
        }
    }
}

/// What a warp group writes.
struct Out<'a, 'g, E, const D: usize, const OUT: usize>
where
    E: EpilogueElement,
{
    group: &'g Group,
    stores: Stores<'g, E, OUT, Math, Alone>,
    o: &'a MapO<E>,
    args: &'a AttentionArgs<'a>,
}

impl<E, const D: usize, const OUT: usize> Out<'_, '_, E, D, OUT>
where
    E: Fragments + EpilogueElement<EpilogueTile<64> = Tile<E, 64, 64>>,
    M64<D>: Shape,
{
    /// Returns the next tile whose queries see a key. Those before it get zeros.
    #[inline(always)]
    fn next_with_keys<const BN: usize>(&mut self, tiles: &mut Tiles<'_>) -> Option<Work> {
        let mut work = tiles.next()?;
        while work.blocks::<BN>(self.args).is_empty() {
            let none = Total { inverse: Rows::splat(0.0), lse: Rows::splat(f32::NEG_INFINITY) };
            self.write(&work, &Accumulator::<D>::zeros(), none);
            work = tiles.next()?;
        }
        Some(work)
    }

    /// Writes 64 rows of O, and their log-sum-exps.
    #[inline(always)]
    fn write(&mut self, work: &Work, sum: &Accumulator<D>, total: Total) {
        let row = work.row() + GROUP_ROWS * self.group.index();
        for panels in 0..D / 64 / OUT {
            let mut buffers = self.stores.acquire_all();
            for fragment in 0..4 * OUT {
                let v = sum.fragment(4 * OUT * panels + fragment);
                let scaled = core::array::from_fn(|i| v[i] * total.inverse.0[row_of(i)]);
                buffers.put(fragment, scaled);
            }
            buffers.publish().store_of(self.o, work.queries(), row, (64 * OUT * panels) as u32);
        }
        let (lse, args) = (self.args.lse.by(self.group), self.args);
        if !lse.is_empty() && self.group.place(0).1 == 0 {
            let head = (work.batch * args.heads + work.head) * args.seq_q;
            let rows = self.group.rows().map(|own| row + own);
            let put = |i: usize| {
                if rows.0[i] < args.seq_q {
                    lse.try_set((head + rows.0[i]) as usize, total.lse.0[i]);
                }
            };
            put(0);
            put(1);
        }
        self.group.sync_warp();
    }
}
