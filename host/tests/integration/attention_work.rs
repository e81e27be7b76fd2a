//! Work lists: every tile once, long ones first, balanced, and few heads at a time.

use host::Dtype;
use host::attention::{AttentionProblem, Heads, Mask, Sequences, TileShape, WorkList};
use proptest::prelude::*;
use std::collections::BTreeSet;

const TILE: TileShape = TileShape { bm: 128, bn: 128 };

fn problem(heads: Heads, sequences: Sequences, mask: Mask) -> AttentionProblem {
    AttentionProblem { mask, ..AttentionProblem::bshd(Dtype::Bf16, heads, sequences) }
}

/// The blocks that a tile meets, from the keys of each of its rows.
fn blocks(p: &AttentionProblem, tile: TileShape, [index, _, batch]: [u32; 3]) -> u64 {
    let [q, kv] = p.sequences.lengths(batch);
    let rows = index * tile.bm..((index + 1) * tile.bm).min(q);
    let seen = rows.map(|i| p.mask.keys(i, q, kv)).filter(|keys| !keys.is_empty());
    let ends = seen.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end));
    ends.map_or(0, |keys| u64::from((keys.end - 1) / tile.bn - keys.start / tile.bn + 1))
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
    fn every_tile_is_in_one_list(
        p in any_problem(), bm in prop_oneof![Just(64u32), Just(128), Just(192)],
        bn in prop_oneof![Just(64u32), Just(80), Just(128), Just(176)], ctas in 1u32..20,
    ) {
        p.check().unwrap();
        let tile = TileShape { bm, bn };
        let work = WorkList::new(&p, tile, ctas);
        prop_assert_eq!(&work, &WorkList::new(&p, tile, ctas));
        let mut want: Vec<[u32; 3]> = Vec::new();
        for batch in 0..p.sequences.batch() {
            for head in 0..p.heads.q {
                let tiles = p.sequences.lengths(batch)[0].div_ceil(bm);
                want.extend((0..tiles).map(|index| [index, head, batch]));
            }
        }
        let lists: Vec<Vec<_>> = (0..work.ctas).map(|cta| work.tiles_of(cta).collect()).collect();
        let mut have: Vec<[u32; 3]> = lists.concat();
        have.sort_by_key(|&[index, head, batch]| (batch, head, index));
        prop_assert_eq!(&have, &want);
        prop_assert_eq!(work.tiles, want.len() as u64);
        let cost = |list: &Vec<[u32; 3]>| list.iter().map(|&t| blocks(&p, tile, t)).sum::<u64>();
        prop_assert_eq!(work.blocks, lists.iter().map(cost).sum::<u64>());
        // No CTA is idle, and each list ends with an end.
        prop_assert!(work.ctas == ctas.min(want.len() as u32) && lists.iter().all(|l| !l.is_empty()));
        prop_assert_eq!(work.words.len(), (3 * work.entries * work.ctas) as usize);
        for list in work.words.chunks_exact(3 * work.entries as usize) {
            prop_assert_eq!(&list[list.len() - 3..], [u32::MAX; 3]);
        }
        // What a queue gives: no CTA ends later than another begins its last tile.
        let times: Vec<u64> = lists.iter().map(|l| cost(l) + l.len() as u64).collect();
        let ends = (times.iter().max().unwrap(), times.iter().min().unwrap());
        let longest = want.iter().map(|&t| blocks(&p, tile, t) + 1).max().unwrap();
        prop_assert!(ends.0 - ends.1 <= longest, "{times:?}");
    }
}

#[test]
fn causal_lists_are_balanced_and_long_tiles_come_first() {
    let heads = Heads { q: 16, kv: 16, dim: 128 };
    for (batch, seq) in [(16, 1024), (4, 4096), (1, 16384)] {
        let p = problem(heads, Sequences::Equal { batch, q: seq, kv: seq }, Mask::CAUSAL);
        let work = WorkList::new(&p, TILE, 132);
        assert!(work.imbalance < 1.02, "{seq}: {}", work.imbalance);
        let first: Vec<_> = (0..132).filter_map(|cta| work.tiles_of(cta).next()).collect();
        let least = first.iter().map(|&t| blocks(&p, TILE, t)).min().unwrap();
        assert!(least > u64::from(seq / 128) / 3, "{seq}: {least}");
    }
}

/// Keys and values of the tiles in flight, in MiB: at the middle of each of 50 parts of the run.
fn megabytes_in_flight(p: &AttentionProblem, work: &WorkList) -> Vec<f64> {
    // When each tile of a CTA ends, in key blocks, with one for its start.
    let timed = |cta| {
        let end = |time: &mut u64, tile| {
            *time += blocks(p, TILE, tile) + 1;
            Some((*time, tile))
        };
        work.tiles_of(cta).scan(0, end).collect::<Vec<_>>()
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
    // All queries of a group read the same keys: their tiles are neighbours.
    let p = problem(Heads { q: 64, kv: 8, dim: 128 }, sequences, Mask::FULL);
    let work = WorkList::new(&p, TILE, 132);
    let first: BTreeSet<_> =
        (0..132).filter_map(|cta| work.tiles_of(cta).next()).map(|t| (t[1] / 8, t[2])).collect();
    assert_eq!(first.len(), 1);
}

#[test]
fn the_longest_sequences_come_first() {
    // Sequence b has 2^(7 + b) tokens.
    let lengths = (0..8).map(|b| [128 << b; 2]);
    let p = problem(Heads { q: 8, kv: 8, dim: 128 }, Sequences::packed(lengths), Mask::CAUSAL);
    let work = WorkList::new(&p, TILE, 132);
    assert!(work.imbalance < 1.05, "{}", work.imbalance);
    assert!((0..132).all(|cta| work.tiles_of(cta).next().is_some_and(|t| t[2] == 7)));
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
    assert_eq!(work.tiles_of(0).collect::<Vec<_>>(), [[2, 0, 0]]);
    // No keys at all, and no queries at all.
    let p = problem(p.heads, Sequences::packed([[5, 0], [0, 9], [0, 0]]), Mask::FULL);
    let work = WorkList::new(&p, TILE, 4);
    assert_eq!((work.tiles, work.blocks), (1, 0));
    assert_eq!(work.words, [0, 0, 0, u32::MAX, u32::MAX, u32::MAX]);
}
