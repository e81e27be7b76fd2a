//! The rows of a decode tile: the head, the query and the diagonal that a score is told, beside those that O and the mask go by.
#![allow(missing_docs)]

use isa::kernel::KernelArg;
use isa::slice::SliceAbi;
use pipeline::grid::{ConstantSlice, DependentSlice, DependentSliceMut, SplitPart, SplitTiles};
use warpipe_gpu_kernels::attention::args::{Matrix, UNBOUNDED};
use warpipe_gpu_kernels::attention::decode::DecodeArgs;
use warpipe_gpu_kernels::attention::decode::args::{Entry, ROWS};

/// Causal attention of sequences of `seq_q` queries, where `readers` heads of Q share one of K and V.
fn args(seq_q: u32, readers: u32) -> DecodeArgs<'static> {
    let none = SliceAbi { address: 0, elements: 0 };
    // SAFETY: slices without an element.
    let (work, block_table, o, lse, tiles) = unsafe {
        (
            ConstantSlice::new(none),
            DependentSlice::new(none),
            DependentSliceMut::new(none),
            DependentSliceMut::new(none),
            SplitTiles::from_abi(none),
        )
    };
    DecodeArgs {
        work,
        block_table,
        o,
        lse,
        tiles,
        o_strides: [0; 3],
        sequence_pages: 0,
        pages: 0,
        page_rows: 0,
        k_page: 0,
        v_page: 0,
        seq_q,
        heads: 4 * readers,
        readers,
        row_heads: readers.min(ROWS).next_power_of_two().ilog2(),
        head_dim: 128,
        left: UNBOUNDED,
        right: 0,
        scale: 1.0,
        scale_log2: 1.0,
        cap: 0.0,
    }
}

#[test]
fn a_score_is_told_the_rows_that_are_masked_and_stored() {
    for (seq_q, readers, keys, query, head) in [
        (1, 1, 300, 0, 0),
        (9, 3, 300, 0, 0),
        (40, 3, 300, 16, 0),
        (2, 64, 300, 1, 0),
        (1, 65, 300, 0, 64),
        // More queries than keys: the first ones see none, and their diagonal lies before key 0.
        (40, 4, 7, 0, 0),
    ] {
        let args = args(seq_q, readers);
        // KV head 2 of sequence 5.
        let entry = Entry {
            query,
            head,
            place: Matrix(5 << 16 | 2),
            keys,
            blocks: 0..keys.div_ceil(64),
            step: 1,
            part: SplitPart { first: 0, part: 0, parts: 1 },
            next: u32::MAX,
        };
        let at = entry.scores_at(&args, 64);
        assert_eq!((at.batch, at.key(3)), (5, 67));
        let mut rows = 0;
        for row in 0..ROWS {
            let case = format!("{seq_q} queries of {readers} heads, {keys} keys, row {row}");
            // With a causal mask, a query sees the keys up to its diagonal.
            assert_eq!(
                at.diagonal(row).min(keys as i32 - 1),
                entry.seen(&args, row).1 - 1,
                "{case}"
            );
            let Some(of) = entry.row(&args, row) else { continue };
            assert_eq!((at.head(row), at.query(row)), of, "{case}");
            let diagonal = at.query(row) as i32 + keys as i32 - seq_q as i32;
            assert_eq!(at.diagonal(row), diagonal, "{case}");
            rows += 1;
        }
        assert_eq!(rows, (readers - head).min(ROWS) * (seq_q - query).min(ROWS >> args.row_heads));
    }
}
