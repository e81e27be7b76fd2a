//! Work lists: every tile once, long ones first, balanced, and few heads at a time.

use gpu_kernels::attention::args::Entry;
use host::Dtype;
use host::attention::{AttentionProblem, Heads, Mask, Sequences, TileShape, WorkList};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

const TILE: TileShape = TileShape { bm: 128, bn: 128 };

fn problem(heads: Heads, sequences: Sequences, mask: Mask) -> AttentionProblem {
    AttentionProblem { mask, ..AttentionProblem::bshd(Dtype::Bf16, heads, sequences) }
}

/// The queries of each tile of a sequence: the last tiles are whole but for the sequence's end.
fn rows_of_tiles(p: &AttentionProblem, bm: u32, batch: u32) -> Vec<Range<u32>> {
    let queries = p.sequences.lengths(batch)[0];
    let (mut end, mut tiles) = (queries.next_multiple_of(64), Vec::new());
    while end > 0 {
        let start = end.saturating_sub(bm);
        tiles.insert(0, start..end.min(queries));
        end = start;
    }
    tiles
}

/// The blocks that a tile meets, from the keys of each of its rows.
fn blocks(p: &AttentionProblem, bn: u32, batch: u32, rows: Range<u32>) -> Range<u32> {
    let [q, kv] = p.sequences.lengths(batch);
    let seen = rows.map(|i| p.mask.keys(i, q, kv)).filter(|keys| !keys.is_empty());
    let ends = seen.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end));
    ends.map_or(0..0, |keys| keys.start / bn..(keys.end - 1) / bn + 1)
}

/// The tile of an entry: its first query, its head and its sequence.
fn tile_of(entry: &Entry) -> [u32; 3] {
    let [head, batch] = entry.place.coords();
    [entry.rows.first(), head, batch]
}

/// The tiles of a CTA, in order.
fn tiles_of(work: &WorkList, cta: u32) -> Vec<[u32; 3]> {
    work.entries_of(cta).map(|entry| tile_of(&entry)).collect()
}

fn any_problem() -> impl Strategy<Value = AttentionProblem> {
    let heads = (1u32..4, 1u32..4).prop_map(|(kv, each)| Heads { q: kv * each, kv, dim: 64 });
    let lengths = proptest::collection::vec([0u32..300, 0u32..300], 1..6);
    let sequences = prop_oneof![
        (1u32..4, 1u32..400, 1u32..400).prop_map(|(batch, q, kv)| Sequences::Equal {
            batch,
            q,
            kv
        }),
        lengths.prop_map(|mut lengths| {
            lengths.push([1, 1]);
            Sequences::packed(lengths)
        }),
    ];
    let window = proptest::option::of(0u32..200);
    (heads, sequences, window.clone(), window)
        .prop_map(|(h, s, left, right)| problem(h, s, Mask { left, right }))
}

proptest! {
    #[test]
    fn every_block_of_every_tile_is_in_one_list(
        p in any_problem(), bm in prop_oneof![Just(64u32), Just(128), Just(192)],
        bn in prop_oneof![Just(16u32), Just(64), Just(80), Just(128), Just(176)], ctas in 1u32..20,
    ) {
        p.check().unwrap();
        let shape = TileShape { bm, bn };
        let work = WorkList::new(&p, shape, ctas);
        prop_assert_eq!(&work, &WorkList::new(&p, shape, ctas));
        let lists: Vec<Vec<Entry>> = (0..work.ctas).map(|c| work.entries_of(c).collect()).collect();
        let mut parts: BTreeMap<[u32; 3], Vec<&Entry>> = BTreeMap::new();
        for entry in lists.iter().flatten() {
            parts.entry(tile_of(entry)).or_default().push(entry);
        }
        let (mut tiles, mut all, mut slots) = (0, 0, BTreeSet::new());
        for batch in 0..p.sequences.batch() {
            for head in 0..p.heads.q {
                for rows in rows_of_tiles(&p, bm, batch) {
                    let tile = [rows.start, head, batch];
                    let want = blocks(&p, bn, batch, rows.clone());
                    (tiles, all) = (tiles + 1, all + want.len() as u64);
                    let mut own = parts.remove(&tile).unwrap_or_default();
                    own.sort_by_key(|entry| entry.blocks.start);
                    // The parts follow one another, and none is empty.
                    let mut at = want.start;
                    for (number, entry) in own.iter().enumerate() {
                        let groups = (rows.end - rows.start).div_ceil(64);
                        prop_assert_eq!((entry.rows.groups(), entry.blocks.start), (groups, at));
                        prop_assert!(own.len() == 1 || !entry.blocks.is_empty());
                        at = entry.blocks.end;
                        // Each warp group of each part has a slot of its own.
                        for group in 0..bm / 64 {
                            match entry.part.of_group(group, bm / 64) {
                                None => prop_assert_eq!(own.len(), 1),
                                Some(part) => {
                                    prop_assert_eq!(part.parts, own.len() as u32);
                                    prop_assert_eq!(part.part, number as u32);
                                    prop_assert!(slots.insert(part.first + part.part));
                                }
                            }
                        }
                        prop_assert_eq!(entry.keys.coords(), [head / (p.heads.q / p.heads.kv), batch]);
                    }
                    prop_assert_eq!(at, want.end);
                }
            }
        }
        prop_assert!(parts.is_empty());
        prop_assert_eq!((work.tiles, work.blocks), (tiles, all));
        // The workspace has these slots, and no other.
        prop_assert!(slots.into_iter().eq(0..work.parts * bm / 64));
        // No CTA is idle, and each list ends with an end.
        prop_assert!(work.ctas <= ctas && lists.iter().all(|l| !l.is_empty()));
        prop_assert_eq!(work.words.len(), (8 * work.entries * work.ctas) as usize);
        for list in work.words.chunks_exact(8 * work.entries as usize) {
            prop_assert_eq!(&list[list.len() - 8..], [u32::MAX; 8]);
        }
        // What a queue gives, or better: no CTA ends later than another begins its last tile.
        let cost = |list: &Vec<Entry>| list.iter().map(|e| e.blocks.len() as u64 + 1).sum::<u64>();
        let times: Vec<u64> = lists.iter().map(cost).collect();
        let longest = (0..p.sequences.batch())
            .flat_map(|batch| rows_of_tiles(&p, bm, batch).into_iter().map(move |rows| (batch, rows)))
            .map(|(batch, rows)| blocks(&p, bn, batch, rows).len() as u64 + 1)
            .max();
        let ends = (times.iter().max().unwrap(), times.iter().min().unwrap());
        let split = work.most_parts > 1;
        prop_assert!(split || ends.0 - ends.1 <= longest.unwrap(), "{times:?}");
    }
}

#[test]
fn few_tiles_with_many_keys_are_split() {
    let heads = |q| Heads { q, kv: q, dim: 128 };
    let full = |heads, batch, [q, kv]: [u32; 2]| {
        let p = problem(heads, Sequences::Equal { batch, q, kv }, Mask::FULL);
        WorkList::new(&p, TILE, 132)
    };
    // 8 tiles of 512 blocks.
    let work = full(heads(2), 1, [512, 65536]);
    let most = (0..132).flat_map(|cta| work.entries_of(cta)).map(|e| e.blocks.len()).max();
    assert!(work.ctas == 132 && work.most_parts <= 18 && most <= Some(33), "{most:?}: {work:?}");
    // 200 tiles: with a second round for 68 of them, or with half a round more.
    let work = full(heads(50), 1, [512, 8192]);
    let most = (0..work.ctas).map(|cta| {
        let of_cta = work.entries_of(cta);
        of_cta.map(|entry| entry.blocks.len()).sum::<usize>()
    });
    assert!(most.max() <= Some(100), "{work:?}");
    // A round more or less is a 16th of the time; a whole number of rounds; and tiles of one block.
    for (heads, batch, seq) in [(heads(16), 4, 4096), (heads(16), 33, 512), (heads(16), 9, 128)] {
        assert_eq!(full(heads, batch, [seq; 2]).parts, 0, "{batch} x {seq}");
    }
}

#[test]
fn causal_lists_are_balanced() {
    for dim in [64, 128, 256] {
        let heads = Heads { q: 2048 / dim, kv: 2048 / dim, dim };
        for seq in [512, 1024, 2048, 4096, 8192, 16384] {
            let sequences = Sequences::Equal { batch: 16384 / seq, q: seq, kv: seq };
            let work = WorkList::new(&problem(heads, sequences, Mask::CAUSAL), TILE, 132);
            // A CTA has a tile more or less, where tiles have few blocks.
            let whole = if seq * dim <= 1024 * 256 { 1.04 } else { 1.02 };
            // Short sequences give up some balance for the L2 cache.
            let limit = whole + 20.5 / f64::from(seq);
            assert!(work.imbalance < limit, "{dim}, {seq}: {}", work.imbalance);
        }
    }
}

/// Keys and values of the tiles in flight, in MiB: at the middle of each of 50 parts of the run.
fn megabytes_in_flight(p: &AttentionProblem, work: &WorkList) -> Vec<f64> {
    // When each tile of a CTA ends, in key blocks, with one for its start.
    let timed = |cta| {
        let end = |time: &mut u64, entry: Entry| {
            *time += entry.blocks.len() as u64 + 1;
            Some((*time, tile_of(&entry)))
        };
        work.entries_of(cta).scan(0, end).collect::<Vec<_>>()
    };
    let lists: Vec<Vec<_>> = (0..work.ctas).map(timed).collect();
    let all = lists.iter().filter_map(|list| list.last()).map(|&(end, _)| end).min().unwrap();
    let readers = p.heads.q / p.heads.kv;
    (0..50)
        .map(|i| {
            let now = all * (2 * i + 1) / 100;
            let running = lists.iter().filter_map(|list| list.iter().find(|&&(end, _)| end > now));
            let heads: BTreeSet<_> =
                running.map(|&(_, [_, head, batch])| (head / readers, batch)).collect();
            let keys: u64 = heads.iter().map(|&(_, b)| u64::from(p.sequences.lengths(b)[1])).sum();
            (keys * u64::from(p.heads.dim) * 4) as f64 / f64::from(1 << 20)
        })
        .collect()
}

#[test]
fn few_heads_are_in_flight() {
    let heads = Heads { q: 64, kv: 64, dim: 128 };
    let sequences = Sequences::Equal { batch: 2, q: 8192, kv: 8192 };
    for mask in [Mask::FULL, Mask::CAUSAL] {
        // 4 MiB for each head; all of them have 512.
        let p = problem(heads, sequences.clone(), mask);
        let flight = megabytes_in_flight(&p, &WorkList::new(&p, TILE, 132));
        let sum: f64 = flight.iter().sum();
        // Where a group ends, tiles of two are in flight.
        let limits = (sum / (flight.len() as f64) < 48.0, flight.iter().all(|&mb| mb <= 64.0));
        assert_eq!(limits, (true, true), "{mask}: {flight:?}");
    }
    // Short sequences: each head's tiles are many, and the CTAs are balanced whatever their order.
    let p = problem(heads, Sequences::Equal { batch: 32, q: 512, kv: 512 }, Mask::CAUSAL);
    let flight = megabytes_in_flight(&p, &WorkList::new(&p, TILE, 132));
    let most = flight.iter().fold(0.0, |a: f64, &b| a.max(b));
    assert!(most <= 16.0, "{most}");
    // All queries of a group read the same keys: their tiles are neighbours.
    let p = problem(Heads { q: 64, kv: 8, dim: 128 }, sequences, Mask::FULL);
    let work = WorkList::new(&p, TILE, 132);
    let first: BTreeSet<_> =
        (0..132).map(|cta| tiles_of(&work, cta)[0]).map(|t| (t[1] / 8, t[2])).collect();
    assert_eq!(first.len(), 1);
}

#[test]
fn the_longest_sequences_come_first() {
    // Sequence b has 2^(7 + b) tokens.
    let lengths = (0..8).map(|b| [128 << b; 2]);
    let p = problem(Heads { q: 8, kv: 8, dim: 128 }, Sequences::packed(lengths), Mask::CAUSAL);
    let work = WorkList::new(&p, TILE, 132);
    assert!(work.imbalance < 1.05, "{}", work.imbalance);
    assert!((0..132).all(|cta| tiles_of(&work, cta)[0][2] == 7));
}

#[test]
fn a_tile_that_sees_nothing_is_in_a_list() {
    let p = problem(
        Heads { q: 1, kv: 1, dim: 64 },
        Sequences::Equal { batch: 1, q: 300, kv: 20 },
        Mask::CAUSAL,
    );
    let work = WorkList::new(&p, TILE, 4);
    assert_eq!((work.tiles, work.blocks, work.ctas), (3, 1, 3));
    assert_eq!(tiles_of(&work, 0), [[192, 0, 0]]);
    // No keys at all, and no queries at all.
    let p = problem(p.heads, Sequences::packed([[5, 0], [0, 9], [0, 0]]), Mask::FULL);
    let work = WorkList::new(&p, TILE, 4);
    assert_eq!((work.tiles, work.blocks), (1, 0));
    assert_eq!(tiles_of(&work, 0), [[0, 0, 0]]);
    assert_eq!(work.entries, 2);
    // No tile: the list of one CTA is empty.
    let p = problem(p.heads, Sequences::packed([[0, 9]]), Mask::FULL);
    let work = WorkList::new(&p, TILE, 4);
    assert_eq!((work.ctas, work.entries, work.tiles), (1, 1, 0));
}
