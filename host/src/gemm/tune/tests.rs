use super::*;
use gpu_kernels::gemm::e5m2::e5m2_instances;
use gpu_kernels::gemm::fused::{FUSED_E4M3_FAST_INSTANCES, FUSED_E4M3_INSTANCES, FusedElement};
use gpu_kernels::gemm::integer::{INT8_INSTANCES, INT8_SCALED_INSTANCES};
use gpu_kernels::gemm::quantised::{E4M3_FAST_INSTANCES, E4M3_INSTANCES, SCALED_C_INSTANCES};
use gpu_kernels::gemm::{
    BLOCK_SCALED_INSTANCES, FAST_ACCUM_INSTANCES, INSTANCES, SCALED_INSTANCES,
};
use half::{bf16, f16};
use isa::kernel::Dtype::{E4m3, E5m2};
use std::collections::{HashMap, HashSet};

/// The families of a table, which all have kernels.
fn families(rows: &[Instance]) -> Vec<String> {
    assert!(!rows.is_empty());
    let mut all: Vec<String> = rows.iter().map(family).collect();
    all.sort();
    all.dedup();
    all
}

#[test]
fn a_family_is_the_name_before_the_tile_and_how_sums_are_scaled() {
    assert!(families(INSTANCES.rows).contains(&"gemm_bf16_f32".to_owned()));
    assert!(families(SCALED_INSTANCES.rows).contains(&"gemm_e4m3_bf16, promoted".to_owned()));
    assert!(families(FAST_ACCUM_INSTANCES.rows).contains(&"gemm_e4m3_bf16".to_owned()));
    let block = "gemm_e4m3_bf16, block scaled".to_owned();
    assert!(families(BLOCK_SCALED_INSTANCES.rows).contains(&block));
}

/// Two products of one size have one entry only if one table computes both: their types, their C and their family say so.
#[test]
fn no_two_tables_share_a_key() {
    let mut tables = vec![
        INSTANCES.rows,
        SCALED_INSTANCES.rows,
        FAST_ACCUM_INSTANCES.rows,
        BLOCK_SCALED_INSTANCES.rows,
        E4M3_INSTANCES.rows,
        E4M3_FAST_INSTANCES.rows,
        SCALED_C_INSTANCES.rows,
        INT8_INSTANCES.rows,
        INT8_SCALED_INSTANCES.rows,
        bf16::fused().rows,
        bf16::gated().rows,
        f16::fused().rows,
        f16::gated().rows,
        FUSED_E4M3_INSTANCES.rows,
        FUSED_E4M3_FAST_INSTANCES.rows,
    ];
    for mix in [[E5m2, E4m3], [E4m3, E5m2], [E5m2, E5m2]] {
        tables.extend([false, true].map(|fast| e5m2_instances(mix, fast).unwrap().rows));
    }
    let mut of = HashMap::new();
    for (table, rows) in tables.into_iter().enumerate() {
        assert!(!rows.is_empty(), "table {table}");
        // The first row for a product says the family of all of them.
        let mut keys = HashSet::new();
        for row in rows {
            keys.insert((row.ab, row.b, row.out, row.has_c));
            let key = (family(row), row.ab, row.b, row.out, row.has_c);
            assert_eq!(*of.entry(key.clone()).or_insert(table), table, "{key:?}");
        }
        let families = of.values().filter(|&&other| other == table).count();
        assert_eq!(families, keys.len(), "a product of table {table} has two families");
    }
}

#[test]
fn a_search_says_in_a_line_what_it_found() {
    let device = crate::Device::sim(sim::Config::default());
    let types = gpu_kernels::gemm::instance::Instances::of(&[]);
    let image = &isa::kernel::Image {
        name: "none",
        arch: "sm_90a",
        code: &[],
        kernels: &[],
        ptxas: None,
        others: &[],
    };
    let gemm = Gemm::<Linear>::with_instances(&device, image, types).unwrap();
    let dtype = isa::kernel::Dtype::Bf16;
    let problem = GemmProblem { m: 0, n: 64, k: 64, ab: dtype, out: dtype, beta_c: false };
    let key = gemm.tune_key(&problem);
    assert_eq!((key.gpu.as_str(), key.driver.as_str()), ("SM model", "none"));
    let entry = TuneEntry {
        key,
        instance: "gemm_x".to_owned(),
        schedule: Schedule { clusters: 66, streamed: 22 },
        us: 10.0,
    };
    let mut tuned = Tuned {
        plan: gemm.plan(&problem).unwrap(),
        entry,
        picked_us: 11.0,
        timed: 54,
        pairs: 88,
        elapsed: Duration::from_millis(1234),
        wrong: Vec::new(),
    };
    assert_eq!(
        tuned.to_string(),
        "timed 54 of 88 pairs of kernel and schedule in 1.23 s: gemm_x 66/22 takes 10.00 us, the picker's choice 11.00 us \
         (1.100 times as fast)"
    );
    tuned.wrong.push("gemm_y 1/0".to_owned());
    assert!(tuned.to_string().ends_with("\nleft out: gemm_y 1/0"));
}
