//! Work lists of the decode kernels: which keys of which head each CTA multiplies.
//!
//! A tile is the queries of up to 64 heads that share their keys, of one sequence. Its keys are split, so that all
//! CTAs have equally many blocks of them. The blocks of all tiles stand in one row, which is cut into equal pieces
//! (stream-K), or each tile is cut into equally many parts (split-K), whichever ends sooner: a CTA whose piece crosses
//! the seam of two tiles has two parts to finish.
//!
//! What the CTAs read at the same time should lie together, because memory opens a page for each place where it is
//! read. Heads of the same keys lie beside one another, so their tiles are cut alike, and read at the same time; and
//! the parts of a tile take turns, block by block.

use super::problem::AttentionProblem;
use super::row::Cut;
use gpu_kernels::attention::args::Matrix;
use gpu_kernels::attention::decode::args::{END, Entry, ROWS};
use pipeline::grid::SplitPart;
use std::ops::Range;

/// Time of a part beside its key blocks (the wait for Q, the last softmax, the combination), in key blocks.
const START: u64 = 3;

/// The rows of tiles: 2^`row_heads` heads of some queries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RowShape {
    /// The logarithm to base 2 of the heads.
    pub row_heads: u32,
}

impl RowShape {
    /// The heads that share keys, rounded up to a power of 2, as far as they fit.
    pub fn of(readers: u32) -> Self {
        Self { row_heads: readers.next_power_of_two().min(ROWS).ilog2() }
    }
    /// Heads of a tile.
    pub fn heads(self) -> u32 {
        1 << self.row_heads
    }
    /// Queries of a tile.
    pub fn queries(self) -> u32 {
        ROWS >> self.row_heads
    }
}

/// Parts of the CTAs of a grid, as the decode kernels read them.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct SplitList {
    /// The entries; entry c is the first one of CTA c.
    pub entries: Vec<Entry>,
    /// Tiles.
    pub tiles: u64,
    /// Key blocks of all tiles.
    pub blocks: u64,
    /// Parts of the tile that has most.
    pub most_parts: u32,
    /// Time of the busiest CTA relative to the average.
    pub imbalance: f64,
}

/// A tile with the blocks that it meets.
#[derive(Clone)]
struct Tile {
    query: u32,
    head: u32,
    place: Matrix,
    keys: u32,
    blocks: Range<u32>,
}

/// Every `step`th block of a range of a tile's blocks.
#[derive(Clone)]
struct Piece {
    tile: usize,
    blocks: Range<u32>,
    step: u32,
}

impl Piece {
    /// Time in key blocks.
    fn time(&self) -> u64 {
        (self.blocks.len() as u64).div_ceil(self.step.into()) + START
    }
}

impl SplitList {
    /// Slots of the workspace for any lengths: two for each CTA's whole tiles, and two for its parts of others.
    pub fn slots(ctas: u32) -> u32 {
        4 * ctas
    }

    /// Most entries for any lengths.
    pub fn most_entries(problem: &AttentionProblem, ctas: u32) -> u64 {
        tile_count(problem) + 2 * u64::from(ctas)
    }

    /// Splits the keys of a checked problem among `ctas` CTAs. Some may have nothing to do.
    pub fn new(problem: &AttentionProblem, bn: u32, ctas: u32) -> Self {
        let tiles = tiles(problem, bn);
        let deals = [even(&tiles, ctas), in_step(&tiles, tiles_of_keys(problem), ctas)];
        let time = |pieces: &[Piece]| -> u64 { pieces.iter().map(Piece::time).sum() };
        let most = |lists: &Vec<Vec<Piece>>| lists.iter().map(|list| time(list)).max().unwrap_or(0);
        let [a, b] = deals;
        let lists = if !a.is_empty() && most(&a) <= most(&b) { a } else { b };
        let blocks = tiles.iter().map(|tile| tile.blocks.len() as u64).sum();
        let sum: u64 = lists.iter().map(|list| time(list)).sum();
        let imbalance =
            if sum > 0 { most(&lists) as f64 * f64::from(ctas) / sum as f64 } else { 1.0 };
        let (entries, most_parts) = entries(&tiles, &lists, ctas);
        Self { entries, tiles: tiles.len() as u64, blocks, most_parts, imbalance }
    }

    /// What the kernel reads.
    pub fn words(&self) -> Vec<u32> {
        self.entries.iter().flat_map(Entry::words).flatten().collect()
    }
}

/// Tiles that read the same keys, or those of another head.
fn tiles_of_keys(problem: &AttentionProblem) -> usize {
    let (heads, readers) = (problem.heads, problem.heads.q / problem.heads.kv);
    (readers.div_ceil(RowShape::of(readers).heads()) * heads.kv) as usize
}

/// Tiles of a problem.
pub(super) fn tile_count(problem: &AttentionProblem) -> u64 {
    let heads = problem.heads;
    let shape = RowShape::of(heads.q / heads.kv);
    let [queries, _] = problem.sequences.longest();
    let of_head = u64::from(queries.div_ceil(shape.queries()))
        * u64::from((heads.q / heads.kv).div_ceil(shape.heads()));
    of_head * u64::from(heads.kv) * u64::from(problem.sequences.batch())
}

fn tiles(problem: &AttentionProblem, bn: u32) -> Vec<Tile> {
    let heads = problem.heads;
    let readers = heads.q / heads.kv;
    let shape = RowShape::of(readers);
    let mut tiles = Vec::new();
    for batch in 0..problem.sequences.batch() {
        let [queries, keys] = problem.sequences.lengths(batch);
        for tile in 0..queries.div_ceil(shape.queries()) {
            let query = tile * shape.queries();
            let rows = query..query.saturating_add(shape.queries()).min(queries);
            let blocks = problem.key_blocks(rows, batch, bn);
            for kv_head in 0..heads.kv {
                let place = Matrix(kv_head | batch << 16);
                for head in (0..readers).step_by(shape.heads() as usize) {
                    tiles.push(Tile { query, head, place, keys, blocks: blocks.clone() });
                }
            }
        }
    }
    tiles
}

/// Each tile in equally many parts, and each part on a CTA of its own; nothing if there are more tiles than CTAs.
///
/// The first parts of all tiles come first, then the second ones: that was up to 2 % faster on an H200 than tile by tile.
fn even(tiles: &[Tile], ctas: u32) -> Vec<Vec<Piece>> {
    let most = ctas / tiles.len().max(1) as u32;
    let piece = |part: u32, index: usize| {
        let blocks = &tiles[index].blocks;
        let (Range { start, end }, parts) = (blocks.clone(), most.min(blocks.len() as u32).max(1));
        (part < parts).then(|| vec![Piece { tile: index, blocks: start + part..end, step: parts }])
    };
    let parts = (0..most).flat_map(|part| (0..tiles.len()).map(move |index| (part, index)));
    parts.filter_map(|(part, index)| piece(part, index)).collect()
}

/// Groups of CTAs, each of which cuts as many tiles alike: of each `together` tiles in a row, as many as leave few CTAs
/// without work.
fn in_step(tiles: &[Tile], together: usize, ctas: u32) -> Vec<Vec<Piece>> {
    let all = ctas as usize;
    let few = |n: &usize| together.is_multiple_of(*n) && all % n <= all / 16;
    let width = (1..=together.min(all)).rev().find(few).unwrap_or(1);
    let firsts: Vec<Tile> = tiles.iter().step_by(width).cloned().collect();
    let mut lists = Vec::new();
    for list in in_a_row(&firsts, (all / width) as u32) {
        for own in 0..width {
            let of = |piece: &Piece| Piece { tile: piece.tile * width + own, ..piece.clone() };
            lists.push(list.iter().map(of).collect());
        }
    }
    lists
}

/// All tiles in a row, cut into equal pieces.
fn in_a_row(tiles: &[Tile], ctas: u32) -> Vec<Vec<Piece>> {
    let all: u64 = tiles.iter().map(|tile| tile.blocks.len() as u64 + START).sum();
    // A CTA has time for a part and some blocks of it.
    let ctas = (all / (2 * START)).clamp(1, ctas.into()) as u32;
    let cut = Cut { ctas, start: START, fewest: 1 };
    let lists = cut.pieces(tiles.iter().map(|tile| &tile.blocks)).into_iter();
    let piece = |(tile, blocks)| Piece { tile, blocks, step: 1 };
    lists.map(|list| list.into_iter().map(piece).collect()).collect()
}

/// The entries of all lists, and the most parts of a tile.
fn entries(tiles: &[Tile], lists: &[Vec<Piece>], ctas: u32) -> (Vec<Entry>, u32) {
    let mut parts = vec![0u32; tiles.len()];
    for piece in lists.iter().flatten() {
        parts[piece.tile] += 1;
    }
    // The first slots are for whole tiles: a CTA uses its two in turn.
    let mut slot = 2 * ctas;
    let mut first = vec![0; tiles.len()];
    for (tile, &parts) in parts.iter().enumerate().filter(|(_, parts)| **parts > 1) {
        first[tile] = slot;
        slot += parts;
    }
    let none = Entry {
        query: 0,
        head: 0,
        place: Matrix(0),
        keys: 0,
        blocks: 0..0,
        step: 1,
        part: SplitPart { first: 0, part: 0, parts: 0 },
        next: END,
    };
    let mut entries = vec![none; ctas as usize];
    let mut done = vec![0; tiles.len()];
    for (cta, list) in lists.iter().enumerate() {
        for (i, Piece { tile, blocks, step }) in list.iter().enumerate() {
            let Tile { query, head, place, keys, .. } = tiles[*tile].clone();
            let whole = parts[*tile] == 1;
            let first = if whole { 2 * cta as u32 + i as u32 % 2 } else { first[*tile] };
            let part = SplitPart { first, part: done[*tile], parts: parts[*tile] };
            done[*tile] += 1;
            let next = entries.len() as u32;
            let next = match (i + 1 < list.len(), i) {
                (false, _) => END,
                (true, 0) => next,
                (true, _) => next + 1,
            };
            let (blocks, step) = (blocks.clone(), *step);
            let entry = Entry { query, head, place, keys, blocks, step, part, next };
            if i == 0 { entries[cta] = entry } else { entries.push(entry) }
        }
    }
    (entries, parts.iter().copied().max().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attention::{Heads, Mask, Sequences};
    use isa::kernel::Dtype;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// Follows the lists as the kernel does.
    fn lists(list: &SplitList, ctas: u32) -> Vec<Vec<Entry>> {
        let follow = |cta: u32| {
            let (mut at, mut entries) = (cta, Vec::new());
            while at != END && list.entries[at as usize].part.parts > 0 {
                let entry = list.entries[at as usize].clone();
                at = entry.next;
                entries.push(entry);
            }
            entries
        };
        (0..ctas).map(follow).collect()
    }

    proptest! {
        /// Each block of each tile is in one part, each part has a slot, and no two parts that may be stored at the
        /// same time share one.
        #[test]
        fn every_block_once(
            keys in proptest::collection::vec(0u32..3000, 1..9), q in 1u32..20, kv in 1u32..4, readers in 1u32..80,
            ctas in 1u32..140, causal: bool,
        ) {
            let sequences = Sequences::Cache { q, keys, capacity: 4096 };
            let heads = Heads { q: kv * readers, kv, dim: 64 };
            let mask = if causal { Mask::CAUSAL } else { Mask::FULL };
            let problem = AttentionProblem { mask, ..AttentionProblem::bshd(Dtype::Bf16, heads, sequences) };
            let list = SplitList::new(&problem, 64, ctas);
            let wanted = tiles(&problem, 64);
            prop_assert_eq!(wanted.len() as u64, tile_count(&problem));
            prop_assert!(list.entries.len() as u64 <= SplitList::most_entries(&problem, ctas));
            let mut found: HashMap<_, Vec<Entry>> = HashMap::new();
            for (cta, entries) in lists(&list, ctas).into_iter().enumerate() {
                for (i, entry) in entries.into_iter().enumerate() {
                    prop_assert!(entry.part.first + entry.part.parts <= SplitList::slots(ctas));
                    if entry.part.parts == 1 {
                        prop_assert_eq!(entry.part.first, 2 * cta as u32 + i as u32 % 2);
                    } else {
                        prop_assert!(entry.part.first >= 2 * ctas);
                    }
                    found.entry((entry.query, entry.head, entry.place.0)).or_default().push(entry);
                }
            }
            prop_assert_eq!(found.len(), wanted.len());
            let mut slots = Vec::new();
            for tile in wanted {
                let mut parts = found.remove(&(tile.query, tile.head, tile.place.0)).unwrap();
                parts.sort_by_key(|entry| entry.part.part);
                let mut blocks = Vec::new();
                for (i, entry) in parts.iter().enumerate() {
                    let SplitPart { first, part, parts: count } = entry.part;
                    prop_assert_eq!((part, count), (i as u32, parts.len() as u32));
                    prop_assert!(!entry.blocks.is_empty() || tile.blocks.is_empty());
                    blocks.extend(entry.each_block());
                    if count > 1 {
                        slots.push(first + part);
                    }
                }
                blocks.sort_unstable();
                prop_assert_eq!(blocks, tile.blocks.collect::<Vec<_>>());
            }
            let all = slots.len();
            slots.sort_unstable();
            slots.dedup();
            prop_assert_eq!(slots.len(), all);
        }
    }

    /// CTAs that run at the same time read the same keys of all heads.
    #[test]
    fn heads_are_in_step() {
        let sequences = Sequences::Equal { batch: 64, q: 1, kv: 5000 };
        let heads = Heads { q: 64, kv: 8, dim: 128 };
        let list = SplitList::new(&AttentionProblem::bshd(Dtype::Bf16, heads, sequences), 64, 132);
        let lists = lists(&list, 132);
        let keys = |cta: usize| {
            lists[cta]
                .iter()
                .map(|entry| (entry.place.coords()[1], entry.blocks.clone()))
                .collect::<Vec<_>>()
        };
        for (cta, list) in lists.iter().enumerate().take(128) {
            assert_eq!(keys(cta), keys(cta / 8 * 8), "CTA {cta}");
            assert!(list.iter().all(|entry| entry.place.coords()[0] as usize == cta % 8));
        }
    }

    #[test]
    fn equal_lengths_are_dealt_evenly() {
        let of = |batch: u32, keys: u32| {
            let sequences = Sequences::Equal { batch, q: 1, kv: keys };
            let heads = Heads { q: 64, kv: 8, dim: 128 };
            SplitList::new(&AttentionProblem::bshd(Dtype::Bf16, heads, sequences), 64, 132)
        };
        // Eight tiles in sixteen parts each.
        assert_eq!((of(1, 1024).tiles, of(1, 1024).most_parts), (8, 16));
        for (batch, keys) in [(1, 65536), (3, 8192), (16, 1024), (64, 65536)] {
            let list = of(batch, keys);
            assert!(list.imbalance < 1.06, "{batch} x {keys}: {}", list.imbalance);
        }
    }
}
