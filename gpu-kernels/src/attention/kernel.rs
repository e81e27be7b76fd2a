//! The attention kernel: persistent, warp-specialised, O = softmax(scale · Q·Kᵀ) · V.
//!
//! ```text
//! warp 0   TMA  Q ──► ring "Q" ─┐
//!          TMA  K ──► ring "K" ─┴► S = Q·Kᵀ ─► score, mask, softmax ─► P (registers) ─┐
//! warp 1   TMA  V ──► ring "V" ───────────────────────────────────────────────────────┴► O += P·V ─► TMA O
//! ```
//!
//! Each warp group that multiplies has 64 queries of a CTA's tile, and goes through the blocks of keys that the tile's
//! queries see, from the last one to the first. It issues the product S of a block together with P·V of the block
//! before, and computes the softmax of S while the tensor cores work on P·V. The groups take turns at issuing, so that
//! a group's softmax also overlaps the other groups' products. At the end of a tile, the next tile's first S takes the
//! place of the next block's.
//!
//! (FlashAttention-3, Shah et al. 2024: "Pingpong scheduling" and "Intra-warpgroup overlapping of GEMMs and softmax";
//! CUTLASS: example 88.)
#![forbid(unsafe_code)]

use super::args::{AttentionArgs, Part};
use super::out::Out;
use super::softmax::{Softmax, first_weights};
use super::work::{End, Mask, Plain, Tiles, Window, Work};
use super::{Score, Sequences};
use core::f32::consts::LOG2_E;
use isa::wgmma::{M64, OperandMajor, Shape};
use pipeline::barrier::NamedSequence;
use pipeline::cta::{Role, Unshared};
use pipeline::mma::{AShape, Fragments, Pack};
use pipeline::prelude::*;
use pipeline::tile::{BatchCoord, EpilogueElement, KMajor, MnMajor};

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

type Alone = Cluster<1, 1>;

/// A block of `BN` values. It is MN-major: the columns of O, which are the product's N, are contiguous.
type VTile<E, const BN: usize, const D: usize> = Tile<E, D, BN, MnMajor>;

/// Queries of all heads and sequences: (head dim, query, head, sequence), in boxes of a tile's `BM` queries. Of packed sequences, this
/// map and those of keys and values have five dimensions ([`RaggedRows`](pipeline::tile::RaggedRows)).
pub type MapQ<E, const BM: usize, const D: usize, const RANK: usize = 4> =
    TensorMap<Tile<E, BM, D>, Unshared, RANK>;
/// Keys, in boxes of a block.
pub type MapK<E, const BN: usize, const D: usize, const RANK: usize = 4> =
    TensorMap<Tile<E, BN, D>, Unshared, RANK>;
/// Values, in boxes of a block.
pub type MapV<E, const BN: usize, const D: usize, const RANK: usize = 4> =
    TensorMap<VTile<E, BN, D>, Unshared, RANK>;

/// Results, in boxes of a warp group's 64 queries.
pub type MapO<E> = TensorMap<<E as EpilogueElement>::EpilogueTile<64>, Unshared, 4>;

/// The shared memory of a kernel. [`attention`] takes the same parameters, in the same order.
///
/// - `Math`: the role of the warp groups that multiply.
/// - `E`: the elements of Q, K, V and O, `bf16` or `f16`.
/// - `BM`: queries of a tile, 64 for each warp group of `Math`.
/// - `BN`: keys of a block.
/// - `D`: columns of a head, a multiple of 64. A problem may have fewer.
/// - `QS`: tiles of queries in shared memory. With two, the next tile's queries are loaded early.
/// - `STAGES`: blocks of keys, and of values.
/// - `OUT`: store buffers of a warp group, of 64 columns each. `64 * OUT` divides `D`. With fewer than `D / 64`, a group
///   writes O in several rounds.
pub type Plan<
    Math,
    E,
    const BM: usize,
    const BN: usize,
    const D: usize,
    const QS: usize,
    const STAGES: usize,
    const OUT: usize,
> = SmemPlan<(
    Ring<QS, (Tile<E, BM, D>,), Tma, Mma<Math>, Queries, Alone>,
    Ring<STAGES, (Tile<E, BN, D>,), Tma, Mma<Math>, Keys, Alone>,
    Ring<STAGES, (VTile<E, BN, D>,), Tma, Mma<Math>, Values, Alone>,
    StoreBuffers<E, OUT, Math>,
    NamedSequence<Math, Turns>,
)>;

/// Runs one CTA: all tiles of its list. `Load` is a role of one warp group, and `Math` has one for each 64 of the `BM`
/// queries of a tile. The sizes are those of [`Plan`]. Without `WINDOWS`, the kernel ignores [`AttentionArgs::left`]: a query
/// sees all keys before its diagonal.
///
/// The maps of Q and O have the dimensions (column, query, head, sequence), those of K and V (column, key, head of the keys,
/// sequence), innermost first. Those of Q, K and V have `RANK` dimensions: 4, or 5 for [`Packed`](crate::attention::Packed)
/// sequences, whose maps are ragged ([`RaggedRows`](pipeline::tile::RaggedRows)).
///
/// Lets the dependent grid start at once (PTX `griddepcontrol.launch_dependents`). Each role waits for the primary grid
/// (`griddepcontrol.wait`) before it touches Q, K, V, O or LSE. Only the list of tiles is read before that.
#[isa::forceinline]
pub fn attention<
    Load,
    Math,
    E,
    Sq,
    S,
    const BM: usize,
    const BN: usize,
    const D: usize,
    const QS: usize,
    const STAGES: usize,
    const OUT: usize,
    const WINDOWS: bool,
    const RANK: usize,
>(
    cta: Cta<(Load, Math), Alone, Plan<Math, E, BM, BN, D, QS, STAGES, OUT>>,
    q: &MapQ<E, BM, D, RANK>,
    k: &MapK<E, BN, D, RANK>,
    v: &MapV<E, BN, D, RANK>,
    o: &MapO<E>,
    args: &AttentionArgs<'_>,
    sequences: Sq,
    score: S,
) where
    Load: Role,
    Math: Role,
    E: Pack + Fragments + OperandMajor<KMajor> + OperandMajor<MnMajor>,
    E: EpilogueElement<EpilogueTile<64> = Tile<E, 64, 64>>,
    Sq: Sequences<Coords: BatchCoord<RANK>>,
    S: Score,
    M64<BN>: Shape + AShape,
    M64<D>: Shape,
{
    cta.launch_dependents();
    q.prefetch(&cta);
    k.prefetch(&cta);
    v.prefetch(&cta);
    o.prefetch(&cta);
    let (early, (queries, keys, values, stores, turns)) = cta.prologue();

    early.specialize(
        |load| {
            load.two_warps(
                |warp| {
                    let Some(early) = warp.elect() else { return };
                    // The first entry is read while the primary grid ends.
                    let mut tiles = Tiles::new(args, sequences, early.coord());
                    let mut next = tiles.next();
                    let one = early.wait();
                    let mut queries = queries.producer.by(&one);
                    let mut keys = keys.producer.by(&one);
                    while let Some(work) = next {
                        if !work.blocks.is_empty() {
                            let (row, at) = work.queries_at(work.rows.first());
                            queries.acquire().load((q.tile_of(at, row, 0, Peers::ALONE),));
                        }
                        for block in work.blocks.clone().rev() {
                            let (key, at) = work.keys_at(block * BN as u32);
                            keys.acquire().load((k.tile_of(at, key, 0, Peers::ALONE),));
                        }
                        next = tiles.next();
                    }
                    queries.tail();
                    keys.tail();
                },
                |warp| {
                    let Some(early) = warp.elect() else { return };
                    let mut tiles = Tiles::new(args, sequences, early.coord());
                    let mut next = tiles.next();
                    let one = early.wait();
                    let mut values = values.producer.by(&one);
                    while let Some(work) = next {
                        for block in work.blocks.clone().rev() {
                            let (key, at) = work.keys_at(block * BN as u32);
                            values.acquire().load((v.tile_of(at, 0, key, Peers::ALONE),));
                        }
                        next = tiles.next();
                    }
                    values.tail();
                },
            );
        },
        |early| {
            let group = early.wait();
            let mut queries = queries.consumer.by(&group);
            let mut keys = keys.consumer.by(&group);
            let mut values = values.consumer.by(&group);
            let mut turns = turns.by(&group);
            let stores = stores.by(&group);
            let mut out = Out::<Math, E, Sq, D, OUT> { group: &group, stores, o, args, sequences };
            let mut tiles = Tiles::new(args, sequences, group.coord());
            let scores_of = Scores { group: &group, args, score };
            // Head dim 64 waits for the values before a block's exponentials; 128 and 256 wait behind the first quarter of them. 256
            // tests whether O has to be multiplied. What is measured: docs/performance-tried.md.
            let (wait_first, tests) = const { (D == 64, D == 256) };

            let Some(mut work) = out.next_with_keys(&mut tiles) else {
                return out.stores.tail();
            };
            'tiles: loop {
                // Nothing of the tile before is in flight. The blocks behind the group's last one are the others'.
                let end = work.end::<BN>(args, group.index());
                for _ in end..work.blocks.end {
                    keys.wait().release_unread(&group);
                    values.wait().release_unread(&group);
                    turns.wait().pass_on();
                }
                let operands = (queries.wait(), keys.wait());
                let turn = turns.wait();
                let product = Accumulator::<BN>::start(&group, operands);
                turn.pass_on();
                let (mut scores, (mut q, key)) = product.finish();
                key.release();
                if WINDOWS {
                    scores_of.change::<Window, _, BN>(&mut scores, &work, end - 1);
                } else {
                    scores_of.change::<End, _, BN>(&mut scores, &work, end - 1);
                }
                let mut softmax = Softmax::first(&group, &mut scores, scores_of.scale());
                let mut p = scores.to_a::<E>();
                loop {
                    let mut sum = Accumulator::<D>::zeros();
                    // A block's scores, behind them the values of the block before.
                    macro_rules! blocks {
                        ($mask:ident, $blocks:expr) => {
                            for block in $blocks.rev() {
                                let key = keys.wait();
                                let turn = turns.wait();
                                let next = Accumulator::<BN>::start(&group, (q.keep(), key));
                                let (next, pv) = next.then_add(sum, (p, values.wait()));
                                turn.pass_on();
                                let (mut scores, (queries, key)) = next.finish();
                                key.release();
                                q = queries;
                                scores_of.change::<$mask, _, BN>(&mut scores, &work, block);
                                let scale = scores_of.scale();
                                let rescale = softmax.grow(&group, &scores, scale, tests);
                                let mut known = rescale.known();
                                if !wait_first {
                                    softmax.weigh(&mut scores, rescale, scale);
                                    known += first_weights(&scores);
                                }
                                let (before, value) = pv.finish_after(known);
                                value.release();
                                if wait_first {
                                    softmax.weigh(&mut scores, rescale, scale);
                                }
                                p = scores.to_a();
                                sum = before;
                                rescale.apply(&mut sum);
                            }
                        };
                    }
                    // A loop for each mask, and not one with a branch in it: ptxas ends the overlap at a branch.
                    // Without windows and parts, a tile sees all keys from the first one.
                    let start = if WINDOWS || Sq::SPLIT { work.blocks.start } else { 0 };
                    let last = work.end::<BN>(args, group.index()) - 1;
                    let plain = work.plain_blocks::<BN>(args, group.index());
                    let from = if WINDOWS { plain.start.clamp(start, last) } else { start };
                    let end = plain.end.clamp(start, last);
                    blocks!(End, end.max(from)..last);
                    blocks!(Plain, from..end);
                    if WINDOWS {
                        blocks!(Window, start..from);
                    }
                    q.release();

                    // With more than one block to pass over, the group would hold the last values of this tile for too
                    // long: the others, at their turns, would wait for it.
                    let mut next = out.next_with_keys(&mut tiles);
                    let passed =
                        |next: &Work<Sq>| next.blocks.end - next.end::<BN>(args, group.index());
                    let whole = !Sq::SPLIT || work.part == Part::WHOLE;
                    let Some(next) = next.take_if(|next| whole && passed(next) <= 1) else {
                        let (sum, value) = sum.add(&group, (p, values.wait())).finish();
                        value.release();
                        out.write(&work, sum, softmax.total(&group, scores_of.scale()));
                        match next {
                            Some(next) => work = next,
                            None => break 'tiles out.stores.tail(),
                        }
                        continue 'tiles;
                    };
                    let passed = passed(&next);
                    if passed > 0 {
                        keys.wait().release_unread(&group);
                        turns.wait().pass_on();
                    }
                    group.sync_warp();
                    // The next tile's first block, behind it the values of this one's last.
                    let first = next.blocks.end - passed - 1;
                    macro_rules! next_tile {
                        ($mask:ident) => {{
                            let operands = (queries.wait(), keys.wait());
                            let turn = turns.wait();
                            let next_scores = Accumulator::<BN>::start(&group, operands);
                            let (next_scores, pv) = next_scores.then_add(sum, (p, values.wait()));
                            turn.pass_on();
                            let total = softmax.total(&group, scores_of.scale());
                            let (mut scores, (queries, key)) = next_scores.finish();
                            key.release();
                            q = queries;
                            scores_of.change::<$mask, _, BN>(&mut scores, &next, first);
                            softmax = Softmax::first(&group, &mut scores, scores_of.scale());
                            let (sum, value) = pv.finish_after(softmax.known());
                            value.release();
                            p = scores.to_a();
                            out.write_rows(&work, &sum, total);
                        }};
                    }
                    let plain = next.plain_blocks::<BN>(args, group.index());
                    if plain.contains(&first) {
                        next_tile!(Plain);
                    } else if !WINDOWS || plain.start <= first {
                        next_tile!(End);
                    } else {
                        next_tile!(Window);
                    }
                    if passed > 0 {
                        values.wait().release_unread(&group);
                    }
                    group.sync_warp();
                    work = next;
                }
            }
        },
    );
}

/// What becomes of the scores of a warp group before the softmax.
struct Scores<'a, Math, S> {
    group: &'a Warpgroup<Math, Alone>,
    args: &'a AttentionArgs<'a>,
    score: S,
}

impl<Math: Role, S: Score> Scores<'_, Math, S> {
    /// The factor of the scores in the exponents, which are those of 2.
    #[isa::forceinline]
    fn scale(&self) -> f32 {
        if S::CHANGES { LOG2_E } else { self.args.scale_log2 }
    }

    /// Changes the scores of a block, and hides those of keys that a query does not see.
    #[isa::forceinline]
    fn change<M: Mask, Sq: Sequences, const BN: usize>(
        &self,
        scores: &mut Accumulator<BN>,
        work: &Work<Sq>,
        block: u32,
    ) where
        M64<BN>: Shape,
    {
        let at = work.place::<BN>(self.args, self.group.index(), block);
        if S::CHANGES {
            scores.map(|x| x * self.args.scale);
            self.score.apply(self.group, scores, at);
        }
        M::hide(self.args, work, self.group, scores, at);
    }
}
