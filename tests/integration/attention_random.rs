//! Random attention problems of all kinds, on a GPU, with whatever kernel the plan picks.

use crate::attention_instances::Case;
use crate::gpu::gpu;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRng, TestRunner};
use warpipe::GEMM_IMAGE;
use warpipe::host::Dtype;
use warpipe::host::attention::{Attention, AttentionProblem, Heads, Mask, Sequences};

/// Problems; `WARPIPE_CASES` is another number.
const CASES: u32 = 60;

fn heads() -> impl Strategy<Value = Heads> {
    (select(vec![1u32, 2, 3, 8]), select(vec![1u32, 2, 5, 8, 16]), 1u32..=32)
        .prop_map(|(kv, readers, dim)| Heads { q: kv * readers, kv, dim: 8 * dim })
}

/// Lengths, of which many are those at which a block or a tile ends.
fn length(most: u32) -> impl Strategy<Value = u32> {
    prop_oneof![select(vec![0, 1, 63, 64, 65, 128]), 1..most]
}

fn sequences() -> impl Strategy<Value = Sequences> {
    let packed = prop::collection::vec((length(900), length(900)), 1..8);
    let keys = || prop::collection::vec(length(3000), 1..10);
    prop_oneof![
        (1u32..5, 1u32..1200, 1u32..1200).prop_map(|(batch, q, kv)| Sequences::Equal {
            batch,
            q,
            kv
        }),
        (1u32..20, 1u32..4, 1u32..4000).prop_map(|(batch, q, kv)| Sequences::Equal {
            batch,
            q,
            kv
        }),
        packed.prop_map(|lengths| {
            let lengths = lengths.into_iter().map(|(q, kv)| [q, kv]);
            Sequences::packed(lengths.chain([[1, 1]]))
        }),
        (1u32..7, keys(), 1u32..200).prop_map(|(q, keys, more)| {
            let capacity = keys.iter().max().map_or(more, |most| most + more);
            Sequences::Cache { q, keys, capacity }
        }),
    ]
}

fn mask() -> impl Strategy<Value = Mask> {
    let edge = || select(vec![0u32, 5, 64, 100, 300]);
    prop_oneof![
        Just(Mask::FULL),
        Just(Mask::CAUSAL),
        (edge(), edge()).prop_map(|(left, right)| Mask { left: Some(left), right: Some(right) }),
    ]
}

fn problem() -> impl Strategy<Value = AttentionProblem> {
    let dtype = select(vec![Dtype::Bf16, Dtype::F16]);
    (dtype, heads(), sequences(), mask(), any::<bool>(), select(vec![None, None, Some(20.0)]))
        .prop_map(|(dtype, heads, sequences, mask, bshd, softcap)| {
            let plain = if bshd || matches!(sequences, Sequences::Packed { .. }) {
                AttentionProblem::bshd(dtype, heads, sequences)
            } else {
                AttentionProblem::bhsd(dtype, heads, sequences)
            };
            AttentionProblem { mask, softcap, ..plain }
        })
}

#[test]
fn random_problems_on_a_gpu() {
    let Some(device) = gpu("random_problems_on_a_gpu") else { return };
    let set = std::env::var("WARPIPE_CASES").ok();
    let cases = set.map_or(CASES, |cases| cases.parse().expect("WARPIPE_CASES is a number"));
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(config.rng_algorithm);
    let attention = Attention::new(&device, &GEMM_IMAGE).expect("the image");
    TestRunner::new_with_rng(config, rng)
        .run(&problem(), |problem| {
            let case = Case::new(&device, "random", problem, 1.0);
            let plan = attention.plan(&case.problem).unwrap_or_else(|e| panic!("{e}"));
            case.computes(&device, &plan);
            Ok(())
        })
        .unwrap_or_else(|e| panic!("{e}"));
}
