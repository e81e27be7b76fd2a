//! Which blocks of keys a warp group of attention multiplies: all that one of its queries sees, and as few others as can be.
#![allow(missing_docs)]

use isa::kernel::KernelArg;
use isa::slice::SliceAbi;
use pipeline::grid::{ConstantSlice, DependentSliceMut, SplitTiles};
use warpipe_gpu_kernels::attention::args::{Matrix, Part, TileRows, UNBOUNDED};
use warpipe_gpu_kernels::attention::work::Work;
use warpipe_gpu_kernels::attention::{AttentionArgs, Equal};

fn args(seq_q: u32, seq_kv: u32, right: u32) -> AttentionArgs<'static> {
    let none = SliceAbi { address: 0, elements: 0 };
    // SAFETY: slices without an element.
    let (work, lse, tiles) = unsafe {
        (ConstantSlice::new(none), DependentSliceMut::new(none), SplitTiles::from_abi(none))
    };
    let (list, heads, left, scale, scale_log2) = (1, 1, UNBOUNDED, 1.0, 1.0);
    AttentionArgs { work, lse, tiles, list, seq_q, seq_kv, heads, left, right, scale, scale_log2 }
}

/// Compares the end of each warp group's blocks with the keys that its queries see, one by one.
fn compare<const BM: u32, const BN: usize>(seq_q: u32, seq_kv: u32, right: u32) -> u32 {
    let (args, bn, mut passed) = (args(seq_q, seq_kv, right), BN as u32, 0);
    // Query i sees the keys before this one.
    let seen = |i: u32| {
        let end = i64::from(i) + i64::from(seq_kv) - i64::from(seq_q) + i64::from(right) + 1;
        end.clamp(0, i64::from(seq_kv)) as u32
    };
    // The first tile has the queries that do not fill a tile, in whole warp groups.
    let whole = seq_q.div_ceil(BM) - 1;
    let few = (seq_q - whole * BM).next_multiple_of(64);
    for tile in 0..=whole {
        let (row, end) = (if tile == 0 { 0 } else { few + (tile - 1) * BM }, few + tile * BM);
        let queries =
            |from: u32, to: u32| (from..to.min(end).min(seq_q)).map(seen).max().unwrap_or(0);
        let blocks = 0..queries(row, end).div_ceil(bn);
        if blocks.is_empty() {
            continue;
        }
        let (place, part) = (Matrix(0), Part::WHOLE);
        let rows = TileRows::new(row, (end - row) / 64);
        assert_eq!((rows.first(), rows.groups()), (row, (end - row) / 64));
        let work = Work::<Equal> { rows, place, keys: place, blocks, part, sequence: () };
        for group in 0..BM / 64 {
            let first = row + 64 * group;
            let want = queries(first, first + 64).div_ceil(bn).max(1);
            assert_eq!(work.end::<BN>(&args, group), want, "{seq_q} x {seq_kv}, {row}, {group}");
            passed += work.blocks.end - want;
        }
    }
    passed
}

#[test]
fn a_group_passes_over_what_none_of_its_queries_sees() {
    for seq_q in [1, 63, 64, 65, 130, 192, 385, 700] {
        for seq_kv in [1, 64, 127, 200, 700, 1001] {
            for right in [0, 5, 200, UNBOUNDED] {
                compare::<192, 128>(seq_q, seq_kv, right);
                compare::<128, 128>(seq_q, seq_kv, right);
                compare::<128, 64>(seq_q, seq_kv, right);
            }
        }
    }
    // Some do, where the tiles are larger than the blocks; none, where each query sees all keys.
    assert_eq!((compare::<128, 64>(512, 512, 0), compare::<128, 64>(512, 512, UNBOUNDED)), (4, 0));
}
