//! The decode kernel: persistent, warp-specialised, bound by the memory that holds K and V.
//!
//! ```text
//! warp 0   TMA  K, V ──► rings "K" and "V" ─┐
//! warp 1   TMA  Q    ──► ring "Q" ──────────┴► S = Q·Kᵀ ─► score, mask ─► softmax ─► O += P·V ─► part of the tile
//!                                              the CTA that comes last: all parts of the tile ─► O, LSE
//! ```
//!
//! One warp group multiplies. It needs less time for a block of keys than the memory needs to deliver it, so it waits
//! for each product, and nothing overlaps but the loads.
//!
//! (FlashDecoding, Dao et al. 2023; FlashAttention-3 `PackGQA`, `num_splits`; the deal of the keys is that of stream-K,
//! Osama et al. 2023.)
#![forbid(unsafe_code)]

use super::args::{DecodeArgs, Entries, Entry};
use super::combine::{combine, write};
use crate::attention::softmax::Softmax;
use crate::attention::{Score, SoftCap};
use core::f32::consts::LOG2_E;
use isa::wgmma::{M64, OperandMajor, Shape};
use pipeline::cta::{Role, Unshared};
use pipeline::mma::{AShape, Pack};
use pipeline::prelude::*;
use pipeline::tile::{KMajor, MnMajor};

names! {
    /// The ring of queries.
    Queries = "Q",
    /// The ring of keys.
    Keys = "K",
    /// The ring of values.
    Values = "V",
}

type Alone = Cluster<1, 1>;
type VTile<E, const BN: usize, const D: usize> = Tile<E, D, BN, MnMajor>;

/// Queries, in boxes of a tile's 64 rows: (head dim, head of those that share keys, query, head of the keys, sequence).
pub type MapQ<E, const D: usize> = TensorMap<Tile<E, 64, D>, Unshared, 5>;
/// Keys, in boxes of a block: (head dim, row of a page, head, end of a page, wrap) as [`RaggedRows`](pipeline::tile::RaggedRows).
pub type MapK<E, const BN: usize, const D: usize> = TensorMap<Tile<E, BN, D>, Unshared, 5>;
/// Values, in boxes of a block.
pub type MapV<E, const BN: usize, const D: usize> = TensorMap<VTile<E, BN, D>, Unshared, 5>;

/// The shared memory of a kernel: a tile of queries, and `STAGES` blocks of `BN` keys and of values. `Math` is a role of one warp
/// group, and `D`, the columns of a head, is a multiple of 64. A problem may have fewer.
pub type Plan<Math, E, const BN: usize, const D: usize, const STAGES: usize> = SmemPlan<(
    Ring<1, (Tile<E, 64, D>,), Tma, Mma<Math>, Queries, Alone>,
    Ring<STAGES, (Tile<E, BN, D>,), Tma, Mma<Math>, Keys, Alone>,
    Ring<STAGES, (VTile<E, BN, D>,), Tma, Mma<Math>, Values, Alone>,
)>;

/// Runs one CTA: all entries of its list. An entry that is a whole tile is written to O and LSE. Of others the CTA stores its
/// part in [`DecodeArgs::tiles`], and the CTA that stores the last part of a tile adds all of them up and writes O and LSE.
///
/// Waits for no other CTA. Lets the dependent grid start at once (PTX `griddepcontrol.launch_dependents`). Each role waits for
/// the primary grid (`griddepcontrol.wait`) before it touches Q, K, V, the block table, O or LSE. Before that, the list is read,
/// and without a block table the first blocks of K and V are prefetched into the L2 cache.
///
/// If [`Score::CHANGES`], `score` is applied, and [`DecodeArgs::cap`] is ignored.
#[isa::forceinline]
pub fn decode<Load, Math, E, S, const BN: usize, const D: usize, const STAGES: usize>(
    cta: Cta<(Load, Math), Alone, Plan<Math, E, BN, D, STAGES>>,
    q: &MapQ<E, D>,
    k: &MapK<E, BN, D>,
    v: &MapV<E, BN, D>,
    args: &DecodeArgs<'_>,
    score: S,
) where
    Load: Role,
    Math: Role,
    S: Score,
    E: Pack + OperandMajor<KMajor> + OperandMajor<MnMajor>,
    M64<BN>: Shape + AShape,
    M64<D>: Shape,
{
    cta.launch_dependents();
    q.prefetch(&cta);
    k.prefetch(&cta);
    v.prefetch(&cta);
    let (early, (queries, keys, values)) = cta.prologue();

    early.specialize(
        |load| {
            load.two_warps(
                |warp| {
                    let Some(early) = warp.elect() else { return };
                    let mut entries = Entries::new(args, early.coord().cluster_id());
                    let mut next = entries.next();
                    let boxes = |entry: &Entry, page: (u32, u32), block: u32| {
                        let (row, at) = entry.keys_at::<BN>(args, page, block, args.k_page);
                        let key = k.tile_of(at, row, 0, Peers::ALONE);
                        let (row, at) = entry.keys_at::<BN>(args, page, block, args.v_page);
                        (key, v.tile_of(at, 0, row, Peers::ALONE))
                    };
                    // The first block comes into the L2 cache while the primary grid ends. More of them would delay the loads of
                    // other CTAs. The primary grid may still write a block table.
                    if let Some(entry) = &next
                        && args.block_table.is_empty()
                        && !entry.blocks.is_empty()
                    {
                        let (key, value) = boxes(entry, entry.only_page(), entry.blocks.start);
                        key.prefetch(&early);
                        value.prefetch(&early);
                    }
                    let one = early.wait();
                    let mut keys = keys.producer.by(&one);
                    let mut values = values.producer.by(&one);
                    while let Some(entry) = next {
                        for block in entry.each_block() {
                            let page = entry.page::<BN>(args, block, &one);
                            let (key, value) = boxes(&entry, page, block);
                            keys.acquire().load((key,));
                            values.acquire().load((value,));
                        }
                        next = entries.next();
                    }
                    keys.tail();
                    values.tail();
                },
                |warp| {
                    let Some(early) = warp.elect() else { return };
                    let mut entries = Entries::new(args, early.coord().cluster_id());
                    let mut next = entries.next();
                    let one = early.wait();
                    let mut queries = queries.producer.by(&one);
                    while let Some(entry) = next {
                        let [head, sequence] = entry.place.coords();
                        let at = [entry.query, head, sequence];
                        if !entry.blocks.is_empty() {
                            queries.acquire().load((q.tile_of(at, entry.head, 0, Peers::ALONE),));
                        }
                        next = entries.next();
                    }
                    queries.tail();
                },
            );
        },
        |early| {
            let mut entries = Entries::new(args, early.coord().cluster_id());
            let mut next = entries.next();
            let group = early.wait();
            let mut queries = queries.consumer.by(&group);
            let mut keys = keys.consumer.by(&group);
            let mut values = values.consumer.by(&group);
            let changes = S::CHANGES || args.cap > 0.0;
            let scale = if changes { LOG2_E } else { args.scale_log2 };
            while let Some(entry) = next {
                let mut sum = Accumulator::<D>::zeros();
                let mut softmax = Softmax::none();
                if !entry.blocks.is_empty() {
                    let mut block = entry.blocks.start;
                    let mut product = Accumulator::start(&group, (queries.wait(), keys.wait()));
                    loop {
                        let (mut scores, (q, key)) = product.finish();
                        key.release();
                        change(&group, &mut scores, args, score, &entry, block);
                        let rescale = softmax.grow(&group, &scores, scale, false);
                        softmax.weigh(&mut scores, rescale, scale);
                        rescale.apply(&mut sum);
                        let p = scores.to_a::<E>();
                        let (next, value) = sum.add(&group, (p, values.wait())).finish();
                        value.release();
                        sum = next;
                        block += entry.step;
                        if block >= entry.blocks.end {
                            break q.release();
                        }
                        product = Accumulator::start(&group, (q.keep(), keys.wait()));
                    }
                }
                let total = softmax.total(&group, scale);
                sum.map_rows(total.inverse, |x, by| x * by);
                if entry.part.parts == 1 {
                    write::<E, _, _, D>(&group, &sum, total.lse, args, &entry);
                } else {
                    let rows = entry.rows(args);
                    if let Some(tile) = args.tiles.store(&group, entry.part, rows, &sum, total.lse)
                    {
                        combine::<E, _, _, D>(&group, &tile, args, &entry);
                    }
                }
                next = entries.next();
            }
        },
    );
}

/// Changes the scores of a block, and hides those of keys that their row does not see.
#[isa::forceinline]
fn change<Math: Role, S: Score, const BN: usize>(
    group: &Warpgroup<Math, Alone>,
    scores: &mut Accumulator<BN>,
    args: &DecodeArgs<'_>,
    score: S,
    entry: &Entry,
    block: u32,
) where
    M64<BN>: Shape,
{
    let at = entry.scores_at(args, block * BN as u32);
    if S::CHANGES {
        scores.map(|x| x * args.scale);
        score.apply(group, scores, at);
    } else if args.cap > 0.0 {
        scores.map(|x| x * args.scale);
        SoftCap { cap: args.cap }.apply(group, scores, at);
    }
    let (first, last) = (entry.seen(args, 0), entry.seen(args, 63));
    let (from, end) = (first.0.max(last.0), first.1.min(last.1));
    let key = (block * BN as u32) as i32;
    // The code for a mask with one bound is a third as long, and cold: a CTA runs it for its last block alone.
    if key < from {
        let seen = group.rows().map(|row| {
            let (from, end) = entry.seen(args, row);
            (from - key, end - key)
        });
        scores.mask(group, seen);
    } else if key + BN as i32 > end {
        scores.mask(group, group.rows().map(|row| (i32::MIN, entry.seen(args, row).1 - key)));
    }
}
