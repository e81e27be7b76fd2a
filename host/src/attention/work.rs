//! Work lists: which tiles of queries each CTA computes, and in which order.
//!
//! A tile is `bm` queries of one head of one sequence. The number of key blocks that it meets depends on the mask and
//! on the sequence, so tiles cost different times. The host deals them out once, as a queue would: each tile goes to
//! the CTA that is free first, and long tiles come before short ones (LPT, longest processing time first). No counter
//! in memory is needed, and the order is the same in every run.
//!
//! Tiles of few heads are in flight at one time, so that their keys and values stay in the L2 cache.

use super::problem::AttentionProblem;
use gpu_kernels::attention::args::END;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

/// Bytes of K and V of the heads in flight. The L2 cache of an H100 and an H200 has 50 MB, in two halves that keep
/// copies of some lines, and Q and O pass through it too.
const L2_BYTES: u64 = 32 << 20;
/// Time of a tile beside its key blocks (Q's load, the last softmax, O's store), in key blocks.
const START: u64 = 1;
/// Words of an entry.
const ENTRY: usize = gpu_kernels::attention::args::ENTRY as usize;

/// Queries of a tile, and keys of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct TileShape {
    /// Queries of a tile.
    pub bm: u32,
    /// Keys of a block.
    pub bn: u32,
}

/// Tiles of the CTAs of a grid.
///
/// [`WorkList::words`] is what the kernel reads. An entry has three words: the index of the tile in its sequence,
/// `head | sequence << 16`, and the same of the head of keys and values. The list of a CTA ends with an entry of
/// [`END`](gpu_kernels::attention::args::END)s, and all lists have equally many entries.
#[derive(Clone, PartialEq, Debug)]
pub struct WorkList {
    /// The lists of all CTAs, one behind the other.
    pub words: Vec<u32>,
    /// Entries of a list, the end included.
    pub entries: u32,
    /// Number of lists.
    pub ctas: u32,
    /// Number of tiles.
    pub tiles: u64,
    /// Key blocks of all tiles.
    pub blocks: u64,
    /// Time of the busiest CTA relative to the average, in key blocks with the cost of each tile's start.
    pub imbalance: f64,
}

/// A tile with the blocks that it meets.
#[derive(Clone, Copy)]
struct Tile {
    index: u32,
    head: u32,
    batch: u32,
    blocks: u32,
}

impl AttentionProblem {
    /// The key blocks that the queries of a tile meet.
    pub(crate) fn key_blocks(&self, tile: u32, batch: u32, shape: TileShape) -> Range<u32> {
        let [q, kv] = self.sequences.lengths(batch);
        let first = tile.saturating_mul(shape.bm);
        let keys = self.mask.keys_of_rows(first..first.saturating_add(shape.bm).min(q), q, kv);
        if keys.is_empty() {
            return 0..0;
        }
        keys.start / shape.bn..keys.end.div_ceil(shape.bn)
    }
}

impl WorkList {
    /// Deals the tiles of a checked problem out to at most `ctas` CTAs, none of which is idle.
    ///
    /// Every tile is in one list, also a tile whose queries see no key: the kernel writes its zeros.
    pub fn new(problem: &AttentionProblem, shape: TileShape, ctas: u32) -> Self {
        let order = in_order(problem, shape);
        let ctas = u64::from(ctas).clamp(1, order.len().max(1) as u64) as u32;
        let mut lists: Vec<Vec<Tile>> = vec![Vec::new(); ctas as usize];
        let mut free: BinaryHeap<_> = (0..ctas).map(|cta| Reverse((0u64, cta))).collect();
        let mut busy = vec![0; ctas as usize];
        let (mut tiles, mut blocks) = (0, 0);
        for tile in order {
            let Some(Reverse((time, cta))) = free.pop() else { break };
            let time = time + u64::from(tile.blocks) + START;
            (tiles, blocks) = (tiles + 1, blocks + u64::from(tile.blocks));
            busy[cta as usize] = time;
            lists[cta as usize].push(tile);
            free.push(Reverse((time, cta)));
        }
        let readers = problem.heads.q / problem.heads.kv;
        let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
        let entries = longest + 1;
        let mut words = vec![END; ENTRY * entries * lists.len()];
        for (words, list) in words.chunks_exact_mut(ENTRY * entries).zip(&lists) {
            for (entry, tile) in words.chunks_exact_mut(ENTRY).zip(list) {
                let place = |head: u32| head | tile.batch << 16;
                entry.copy_from_slice(&[tile.index, place(tile.head), place(tile.head / readers)]);
            }
        }
        let average = busy.iter().sum::<u64>() as f64 / f64::from(ctas);
        let most = busy.iter().max().copied().unwrap_or(0) as f64;
        let imbalance = if most > 0.0 { most / average } else { 1.0 };
        Self { words, entries: entries as u32, ctas, tiles, blocks, imbalance }
    }

    /// The tiles of one CTA, in order: `[tile, head, sequence]`.
    pub fn tiles_of(&self, cta: u32) -> impl Iterator<Item = [u32; 3]> {
        let list = self
            .words
            .chunks_exact(ENTRY * self.entries as usize)
            .nth(cta as usize)
            .unwrap_or_default();
        let entries = list.chunks_exact(ENTRY).take_while(|entry| entry[0] != END);
        entries.map(|entry| [entry[0], entry[1] & 0xffff, entry[1] >> 16])
    }
}

/// All tiles in the order in which CTAs should begin them.
///
/// Sequences with long tiles come first. The heads of K and V are taken in groups that fit in the L2 cache; within a
/// group, long tiles come first, and tiles of one head of K and V are neighbours.
fn in_order(problem: &AttentionProblem, shape: TileShape) -> Vec<Tile> {
    let heads = problem.heads;
    let readers = heads.q / heads.kv;
    let mut sequences: Vec<_> = (0..problem.sequences.batch())
        .map(|batch| {
            let [q, kv] = problem.sequences.lengths(batch);
            let blocks: Vec<u32> = (0..q.div_ceil(shape.bm))
                .map(|tile| problem.key_blocks(tile, batch, shape).len() as u32)
                .collect();
            // Both K and V.
            let bytes = 2 * u64::from(kv) * u64::from(heads.dim) * problem.dtype.size() as u64;
            (batch, bytes, blocks)
        })
        .collect();
    sequences.sort_by_key(|(batch, _, blocks)| (Reverse(blocks.iter().max().copied()), *batch));
    let (mut order, mut group, mut held) = (Vec::new(), Vec::new(), 0);
    let close = |group: &mut Vec<Tile>, order: &mut Vec<Tile>| {
        // A stable sort: tiles of equal cost stay with their head.
        group.sort_by_key(|tile| Reverse(tile.blocks));
        order.append(group);
    };
    for (batch, bytes, blocks) in &sequences {
        for kv_head in 0..heads.kv {
            if held > 0 && held + bytes > L2_BYTES {
                close(&mut group, &mut order);
                held = 0;
            }
            held += bytes;
            for head in kv_head * readers..(kv_head + 1) * readers {
                let tile = |(index, &blocks): (usize, &u32)| Tile {
                    index: index as u32,
                    head,
                    batch: *batch,
                    blocks,
                };
                group.extend(blocks.iter().enumerate().map(tile));
            }
        }
    }
    close(&mut group, &mut order);
    order
}
