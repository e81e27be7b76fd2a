//! Work lists: which tiles of queries each CTA computes, and in which order.
//!
//! A tile is up to `bm` queries of one head of one sequence. The number of key blocks that it meets depends on the mask and
//! on the sequence, so tiles cost different times. The host deals them out once, as a queue would: each tile goes to
//! the CTA that is free first, and long tiles come before short ones (LPT, longest processing time first). No counter
//! in memory is needed, and the order is the same in every run.
//!
//! Where CTAs would wait for the last ones, the keys of some tiles are split among CTAs (stream-K): these tiles stand in
//! a row, which is cut into equal pieces. A CTA begins with its piece, so that the parts are combined while others
//! multiply.
//!
//! Tiles of few heads are in flight at one time, so that their keys and values stay in the L2 cache.

use super::problem::AttentionProblem;
use super::row::Cut;
use super::sequences::Sequences;
use gpu_kernels::attention::args::{END, ENTRY_QUADS, Entry, GROUP_ROWS, Matrix, Part, TileRows};
use pipeline::grid::SplitPart;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::iter::once;
use std::ops::Range;

/// Bytes of K and V of the heads in flight: the least that balances the CTAs about as well as more would. The L2 cache of an
/// H100 and an H200 has 50 MB, in two halves that keep copies of some lines. Q and O pass through it too.
const L2_BYTES: [u64; 3] = [8 << 20, 16 << 20, 32 << 20];
/// How much longer the busiest CTA may take for that, times the keys of a sequence. For long sequences memory decides less.
///
/// With 8 MiB instead of 32, causal attention with head dim 128 took 0.88 of the time for 512 keys, 0.94 for 1024, and 0.99
/// for 4096. (One H100, driver 580.159.04, 2026-11-25.)
const BALANCE_KEYS: f64 = 20.5;
/// Time of a tile beside its key blocks (Q's load, the last softmax, O's store), in key blocks.
const START: u64 = 1;
/// Time of a part beside its key blocks and [`START`], in key blocks: it begins and ends without overlap, and is stored. For
/// each part of its tile, one more: all are added up by the CTA that comes last.
const SPLIT: u64 = 3;
/// A deal with split tiles has to be faster than one without by this factor.
const GAIN: f64 = 1.1;
/// Fewest key blocks of a part, except where a tile has fewer.
const FEWEST: u32 = 2;
/// Words of an entry.
const ENTRY: usize = 4 * ENTRY_QUADS as usize;

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
/// [`WorkList::words`] is what the kernel reads, [`Entry::words`] of each entry. The list of a CTA ends with an entry
/// of [`END`]s, and all lists have equally many entries.
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
    /// Parts of the tile that is split among most CTAs; 1 if none is.
    pub most_parts: u32,
    /// Parts of all tiles that are split.
    pub parts: u32,
    /// Time of the busiest CTA relative to the average, in key blocks with the cost of each tile's start.
    pub imbalance: f64,
}

/// A tile with the blocks that it meets.
#[derive(Clone)]
struct Tile {
    rows: Range<u32>,
    head: u32,
    batch: u32,
    blocks: Range<u32>,
}

impl Tile {
    fn len(&self) -> u32 {
        self.blocks.len() as u32
    }
}

/// Some blocks of a tile, which has an index in the order.
type Piece = (usize, Range<u32>);

impl AttentionProblem {
    /// The blocks of `bn` keys that some queries of a sequence meet.
    pub(crate) fn key_blocks(&self, rows: Range<u32>, batch: u32, bn: u32) -> Range<u32> {
        let [q, kv] = self.sequences.lengths(batch);
        let keys = self.mask.keys_of_rows(rows, q, kv);
        if keys.is_empty() {
            return 0..0;
        }
        keys.start / bn..keys.end.div_ceil(bn)
    }
}

impl WorkList {
    /// Deals the tiles of a checked problem out to at most `ctas` CTAs, none of which is idle.
    ///
    /// Every block of every tile is in one list. So is a tile whose queries see no key: the kernel writes its zeros.
    pub fn new(problem: &AttentionProblem, shape: TileShape, ctas: u32) -> Self {
        let whole = |l2_bytes: u64| {
            let order = in_order(problem, shape, l2_bytes);
            let ctas = u64::from(ctas).clamp(1, order.len().max(1) as u64) as u32;
            (deal(&order, 0, ctas), order)
        };
        let wholes = L2_BYTES.map(whole);
        let least = wholes.iter().map(|(deal, _)| deal.most()).min().unwrap_or(0) as f64;
        let [_, keys] = problem.sequences.longest();
        let limit = least * (1.0 + BALANCE_KEYS / f64::from(keys.max(1)));
        let balanced = |deal: &Deal| deal.most() as f64 <= limit;
        let [few, more, most] = wholes;
        let choose = |a, b: (Deal, Vec<Tile>)| if balanced(&b.0) { b } else { a };
        let (whole, order) = [more, few].into_iter().fold(most, choose);
        // The tiles behind the last round in which all CTAs have one; or all, where there are few. Many parts of a tile take
        // long to add up, so fewer CTAs may be faster.
        let few = order.len() <= 2 * ctas as usize;
        let all = (1..=8).filter(|_| few).map(|n| (order.len(), (ctas / n).max(1)));
        let split = once((order.len() % ctas.max(1) as usize, ctas)).chain(all);
        // The kernels of packed sequences split no tile.
        let packed = matches!(problem.sequences, Sequences::Packed { .. });
        let split = split.filter(|_| !packed).map(|(tail, ctas)| deal(&order, tail, ctas));
        let best = split.filter(Deal::fits).min_by_key(Deal::most);
        let best = best.filter(|deal| deal.most() as f64 * GAIN < whole.most() as f64);
        best.unwrap_or(whole).list(&order, problem)
    }

    /// The entries of one CTA, in order.
    pub fn entries_of(&self, cta: u32) -> impl Iterator<Item = Entry> {
        let list = self
            .words
            .chunks_exact(ENTRY * self.entries as usize)
            .nth(cta as usize)
            .unwrap_or_default();
        let entries = list.chunks_exact(ENTRY).take_while(|entry| entry[0] != END);
        entries.map(|words| {
            let quad = |i: usize| std::array::from_fn(|j| words[4 * i + j]);
            Entry::of_words([quad(0), quad(1)])
        })
    }
}

/// Which pieces each CTA has, in order.
struct Deal {
    lists: Vec<Vec<Piece>>,
    /// Parts of each tile of the order.
    parts: Vec<u32>,
    /// Time of each CTA.
    busy: Vec<u64>,
}

/// Cuts the last `tail` tiles into equal pieces for all CTAs, and deals the others out as a queue would.
fn deal(order: &[Tile], tail: usize, ctas: u32) -> Deal {
    let (queue, row) = order.split_at(order.len() - tail);
    let cut = Cut { ctas, start: START, fewest: FEWEST };
    let mut lists: Vec<Vec<Piece>> = cut.pieces(row.iter().map(|tile| &tile.blocks));
    let mut parts = vec![0u32; order.len()];
    for (tile, _) in lists.iter_mut().flatten() {
        *tile += queue.len();
        parts[*tile] += 1;
    }
    let time = |(tile, blocks): &Piece| {
        let count = u64::from(parts[*tile]);
        let split = if count > 1 { SPLIT + count } else { 0 };
        blocks.len() as u64 + START + split
    };
    let mut busy: Vec<u64> = lists.iter().map(|list| list.iter().map(time).sum()).collect();
    let mut free: BinaryHeap<_> =
        busy.iter().zip(0usize..).map(|(&time, cta)| Reverse((time, cta))).collect();
    for (index, tile) in queue.iter().enumerate() {
        let Some(Reverse((time, cta))) = free.pop() else { break };
        busy[cta] = time + u64::from(tile.len()) + START;
        lists[cta].push((index, tile.blocks.clone()));
        parts[index] = 1;
        free.push(Reverse((busy[cta], cta)));
    }
    Deal { lists, parts, busy }
}

impl Deal {
    /// Whether the kernel's words have room for the parts and their slots.
    fn fits(&self) -> bool {
        let slots: u32 = self.parts.iter().filter(|&&parts| parts > 1).sum();
        self.parts.iter().all(|&parts| parts <= Part::MOST) && u16::try_from(slots).is_ok()
    }

    /// Time of the busiest CTA.
    fn most(&self) -> u64 {
        self.busy.iter().max().copied().unwrap_or(0)
    }

    fn list(self, order: &[Tile], problem: &AttentionProblem) -> WorkList {
        let Self { lists, parts, busy } = self;
        let mut lists: Vec<_> = lists.into_iter().filter(|list| !list.is_empty()).collect();
        // Without a tile, there is one CTA, whose list is empty.
        lists.resize(lists.len().max(1), Vec::new());
        let readers = problem.heads.q / problem.heads.kv;
        let entries = lists.iter().map(Vec::len).max().unwrap_or(0) + 1;
        let mut first = vec![0; order.len()];
        let mut slots = 0;
        for (first, parts) in first.iter_mut().zip(&parts).filter(|(_, parts)| **parts > 1) {
            (*first, slots) = (slots, slots + parts);
        }
        let mut done = vec![0; order.len()];
        let mut words = vec![END; ENTRY * entries * lists.len()];
        for (words, list) in words.chunks_exact_mut(ENTRY * entries).zip(&lists) {
            for (words, (tile, blocks)) in words.chunks_exact_mut(ENTRY).zip(list) {
                let Tile { rows, head, batch, .. } = &order[*tile];
                let place = |head: u32| Matrix(head | batch << 16);
                let (part, parts) = (done[*tile], parts[*tile]);
                done[*tile] += 1;
                let split = SplitPart { first: first[*tile], part, parts };
                let entry = Entry {
                    rows: TileRows::new(rows.start, (rows.end - rows.start).div_ceil(GROUP_ROWS)),
                    place: place(*head),
                    keys: place(head / readers),
                    blocks: blocks.clone(),
                    part: if parts > 1 { Part::new(split) } else { Part::WHOLE },
                };
                words.copy_from_slice(entry.words().as_flattened());
            }
        }
        let average = busy.iter().sum::<u64>() as f64 / lists.len() as f64;
        let most = busy.iter().max().copied().unwrap_or(0) as f64;
        WorkList {
            words,
            entries: entries as u32,
            ctas: lists.len() as u32,
            tiles: order.len() as u64,
            blocks: order.iter().map(|tile| u64::from(tile.len())).sum(),
            most_parts: parts.iter().max().copied().unwrap_or(1),
            parts: slots,
            imbalance: if most > 0.0 { most / average } else { 1.0 },
        }
    }
}

/// The tiles of a sequence: `bm` queries each, from the last query backwards, and for the first one what is left. It gets
/// whole warp groups of 64, so the last tile may have fewer queries too.
///
/// With a causal mask the first queries see the fewest keys. So the warp groups that have no queries wait for the fewest
/// blocks.
pub(super) fn tiles_of(queries: u32, bm: u32) -> impl Iterator<Item = Range<u32>> {
    let whole = queries.div_ceil(bm).saturating_sub(1);
    let first = (queries - whole * bm).next_multiple_of(GROUP_ROWS);
    let from = (0..whole).map(move |tile| first + tile * bm);
    let tiles = once(0..first)
        .filter(move |_| queries > 0)
        .chain(from.map(move |at| at..at.saturating_add(bm)));
    tiles.map(move |rows| rows.start..rows.end.min(queries))
}

/// All tiles in the order in which CTAs should begin them.
///
/// Sequences with long tiles come first. The heads of K and V are taken in groups of `l2_bytes`; within a group, long tiles come first, and tiles of one head of K and V are neighbours.
fn in_order(problem: &AttentionProblem, shape: TileShape, l2_bytes: u64) -> Vec<Tile> {
    let heads = problem.heads;
    let readers = heads.q / heads.kv;
    let mut sequences: Vec<_> = (0..problem.sequences.batch())
        .map(|batch| {
            let [q, kv] = problem.sequences.lengths(batch);
            let blocks = |rows: Range<u32>| problem.key_blocks(rows, batch, shape.bn);
            let tiles: Vec<_> =
                tiles_of(q, shape.bm).map(|rows| (blocks(rows.clone()), rows)).collect();
            // Both K and V.
            let bytes = 2 * u64::from(kv) * u64::from(heads.dim) * problem.dtype.size() as u64;
            (batch, bytes, tiles)
        })
        .collect();
    sequences.sort_by_key(|(batch, _, tiles)| {
        (Reverse(tiles.iter().map(|(blocks, _)| blocks.len()).max()), *batch)
    });
    let (mut order, mut group, mut held) = (Vec::new(), Vec::new(), 0);
    let close = |group: &mut Vec<Tile>, order: &mut Vec<Tile>| {
        // A stable sort: tiles of equal cost stay with their head.
        group.sort_by_key(|tile| Reverse(tile.len()));
        order.append(group);
    };
    for (batch, bytes, tiles) in &sequences {
        for kv_head in 0..heads.kv {
            if held > 0 && held + bytes > l2_bytes {
                close(&mut group, &mut order);
                held = 0;
            }
            held += bytes;
            for head in kv_head * readers..(kv_head + 1) * readers {
                let tile = |(blocks, rows): &(Range<u32>, Range<u32>)| Tile {
                    rows: rows.clone(),
                    head,
                    batch: *batch,
                    blocks: blocks.clone(),
                };
                group.extend(tiles.iter().map(tile));
            }
        }
    }
    close(&mut group, &mut order);
    order
}
