//! The tables of compiled kernels.
//!
//! These are not unit tests: a crate of unit tests that names a table compiles each of its kernels again.

#[cfg(feature = "sm100")]
use std::collections::BTreeSet;

use half::{bf16, f16};
use isa::kernel::Dtype;
use pipeline::cta::SMEM_LIMIT;
use warpipe_gpu_kernels::gemm::e5m2::e5m2_instances;
use warpipe_gpu_kernels::gemm::fused::FusedElement;
use warpipe_gpu_kernels::gemm::grouped::GROUPED_INSTANCES;
use warpipe_gpu_kernels::gemm::integer::{INT8_INSTANCES, INT8_SCALED_INSTANCES};
use warpipe_gpu_kernels::gemm::quantised::{E4M3_FAST_INSTANCES, E4M3_INSTANCES};
use warpipe_gpu_kernels::gemm::table::{FEATURES, all_instances};
use warpipe_gpu_kernels::gemm::{
    BLOCK_SCALED_INSTANCES, FAST_ACCUM_INSTANCES, INSTANCES, Instance, LAYOUT_INSTANCES,
    SCALED_INSTANCES,
};

/// Whether a table with a feature of its own is as the feature says.
fn present(rows: &[Instance], feature: bool) -> bool {
    rows.is_empty() != feature
}

/// Each combination has kernels if, and only if, its feature is on; `cargo test --workspace` has all of them.
#[test]
fn features_are_what_the_tables_have() {
    let tables = [
        INSTANCES.rows,
        SCALED_INSTANCES.rows,
        FAST_ACCUM_INSTANCES.rows,
        E4M3_INSTANCES.rows,
        INT8_INSTANCES.rows,
        INT8_SCALED_INSTANCES.rows,
        // An A of e4m3 with a B of e5m2 has the types of another feature.
        e5m2_instances([Dtype::E5m2, Dtype::E4m3], false).unwrap().rows,
    ];
    let rows: Vec<_> = tables.into_iter().flatten().collect();
    let of = |ab, out| rows.iter().any(|i| (i.ab, i.out) == (ab, out));
    for (ab, out, feature, on) in FEATURES {
        assert_eq!(of(ab, out), on, "{feature}");
    }
    let known = |i: &Instance| FEATURES.iter().any(|f| (f.0, f.1) == (i.ab, i.out));
    assert!(all_instances().all(known), "every kernel has a feature");
}

#[test]
fn tables_with_a_feature_of_their_own_have_its_kernels() {
    for (rows, out) in
        [(INT8_INSTANCES.rows, Dtype::I32), (INT8_SCALED_INSTANCES.rows, Dtype::Bf16)]
    {
        assert!(present(rows, cfg!(feature = "gemm-int8")), "int8");
        assert!(rows.iter().all(|i| (i.ab, i.b, i.out) == (Dtype::I8, Dtype::I8, out)));
    }
    for (table, promotes) in [(E4M3_INSTANCES, true), (E4M3_FAST_INSTANCES, false)] {
        assert!(present(table.rows, cfg!(feature = "gemm-e4m3-e4m3")), "e4m3 results");
        let right =
            |i: &Instance| (i.ab, i.out, i.promotes) == (Dtype::E4m3, Dtype::E4m3, promotes);
        assert!(table.iter().all(right));
    }
    for [a, b] in [[Dtype::E5m2, Dtype::E4m3], [Dtype::E4m3, Dtype::E5m2], [Dtype::E5m2; 2]] {
        for fast in [false, true] {
            let rows = e5m2_instances([a, b], fast).unwrap().rows;
            assert!(present(rows, cfg!(feature = "gemm-e5m2")), "{a:?} x {b:?}");
            assert!(rows.iter().all(|i| (i.ab, i.b, i.promotes) == (a, b, !fast)));
        }
    }
    assert!(e5m2_instances([Dtype::E4m3; 2], false).is_none());
}

/// They store whole tiles of bf16.
#[test]
fn grouped_kernels_are_of_bf16() {
    assert!(present(GROUPED_INSTANCES, cfg!(feature = "gemm-grouped")));
    let bf16 = (Dtype::Bf16, Dtype::Bf16);
    assert!(GROUPED_INSTANCES.iter().all(|i| (i.ab, i.out) == bf16 && !i.splits_k && !i.has_c));
}

/// Gated kernels, and no others, halve D's columns. All have an activation.
#[test]
fn fused_kernels_are_gated_or_not() {
    let tables = [
        (bf16::fused().rows, false),
        (bf16::gated().rows, true),
        (f16::fused().rows, false),
        (f16::gated().rows, true),
    ];
    for (rows, gated) in tables {
        assert!(present(rows, cfg!(feature = "gemm-fused")));
        assert!(rows.iter().all(|i| i.gated == gated && i.ab == i.out && i.activates));
    }
}

/// For each type all four layouts, with the names of BLAS.
#[test]
fn each_type_has_all_layouts() {
    assert!(present(LAYOUT_INSTANCES.rows, cfg!(feature = "gemm-layouts")));
    for row in LAYOUT_INSTANCES.iter() {
        let letter = |mn_major, if_so, if_not| if mn_major { if_so } else { if_not };
        let (a, b) = (letter(row.a_mn_major, 'n', 't'), letter(row.b_mn_major, 't', 'n'));
        let name = row.desc.meta.name();
        assert!(name.contains(&format!("_{a}{b}_")), "{name}");
        assert!(row.batched && row.ab == row.out && !row.swap_ab);
        assert_eq!(name.ends_with("_c"), row.has_c, "{name}");
        let tile = |i: &Instance| (i.ab, i.bm, i.bn, i.has_c);
        let same = |other: &&Instance| tile(other) == tile(row);
        assert_eq!(LAYOUT_INSTANCES.iter().filter(same).count(), 4);
    }
}

/// Sums of 8-bit floats stay in the tensor cores in the kernels with fast accumulation alone.
#[test]
fn a_table_has_one_accumulation() {
    assert!(SCALED_INSTANCES.iter().all(|i| i.promotes && i.scale_granularity.is_none()));
    let block = Some([1, 128, 128]);
    assert!(BLOCK_SCALED_INSTANCES.iter().all(|i| i.promotes && i.scale_granularity == block));
    assert!(!FAST_ACCUM_INSTANCES.iter().any(|i| i.promotes));
    assert!(!INSTANCES.iter().any(|i| i.promotes || i.ab.size() == 1));
}

/// A row without `stages` has as many stages as fit into an SM, or into half of an SM for `_x2`.
#[test]
fn one_more_stage_would_not_fit() {
    for instance in all_instances() {
        let meta = &instance.desc.meta;
        let per_sm = if meta.name().trim_end_matches("_fast").ends_with("_x2") { 2 } else { 1 };
        let limit = (SMEM_LIMIT as u32 + 1024) / per_sm - 1024;
        let one_more = meta.smem_bytes + instance.stage_bytes + 16;
        assert!(meta.smem_bytes <= limit, "{}: {} bytes", meta.name(), meta.smem_bytes);
        assert!(one_more > limit, "{}: {one_more} bytes of {limit} would fit", meta.name());
    }
}

/// The name of a kernel for Blackwell says its tile and its cluster; the table says the same.
#[cfg(feature = "sm100")]
#[test]
fn rows_for_blackwell_agree_with_the_names() {
    let pair = |word: &str| -> Option<[u32; 2]> {
        let (rows, columns) = word.split_once('x')?;
        Some([rows.parse().ok()?, columns.parse().ok()?])
    };
    let mut seen = BTreeSet::new();
    for instance in warpipe_gpu_kernels::sm100::INSTANCES {
        let meta = &instance.desc.meta;
        let words: Vec<_> = meta.name().split('_').collect();
        let mut sizes = words.iter().filter_map(|word| pair(word));
        let (tile, cluster) = (sizes.next().unwrap(), sizes.next().unwrap_or([1, 1]));
        let want = [tile[0] * cluster[0], tile[1] * cluster[1]];
        assert_eq!(instance.cluster_tile, want, "{}", meta.name());
        let ctas = if words.contains(&"2sm") { 2 } else { cluster[0] * cluster[1] };
        assert_eq!(meta.cluster_size(), ctas, "{}", meta.name());
        assert_eq!(instance.launch_control, words.contains(&"clc"), "{}", meta.name());
        let nvf4 = words.contains(&"nvf4");
        assert_eq!(instance.block_scaled, nvf4 || words.contains(&"mx"), "{}", meta.name());
        assert_eq!(instance.packing, 1 + u32::from(nvf4), "{}", meta.name());
        let params = if instance.block_scaled { 7 } else { 5 };
        assert_eq!(meta.params().len(), params, "{}", meta.name());
        assert!(seen.insert(meta.name().to_owned()), "{} twice", meta.name());
    }
}
