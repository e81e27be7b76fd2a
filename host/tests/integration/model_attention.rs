//! Attention on the SM model with the kernels of the table: results against the f64 reference, operands where they
//! lie, and every byte that does not belong to O or LSE as it was.

use gpu_kernels::attention::decode::{DECODE_INSTANCES, DecodeInstance};
use gpu_kernels::attention::{INSTANCES, Instance};
use host::attention::{Attention, AttentionPlan, AttentionProblem, Heads, Mask, Operand};
use host::attention::{Sequences, Strides};
use host::data::{decode, encode, normal, rounded};
use host::reference::{self, AttentionCheck};
use host::{Buffer, Device, Dtype, Error, SimConfig, View, ViewMut};
use isa::kernel::{Image, KernelMeta};
use proptest::prelude::*;
use std::sync::LazyLock;

static KERNELS: LazyLock<Vec<KernelMeta>> = LazyLock::new(|| {
    let tiles = INSTANCES.iter().map(|instance| instance.desc.meta);
    tiles.chain(DECODE_INSTANCES.iter().map(|instance| instance.desc.meta)).collect()
});

/// The kernels of the tables; the model needs no code.
pub static IMAGE: LazyLock<Image> = LazyLock::new(|| Image {
    name: "attention",
    arch: "sm_90a",
    code: &[],
    kernels: &KERNELS,
    ptxas: None,
    others: &[],
});

/// What lies around the tensors: NaN in every type.
pub const AROUND: u8 = 0xff;

pub fn device(sms: u32) -> Device {
    Device::sim(SimConfig { sms, ..SimConfig::default() })
}

fn plan(device: &Device, problem: &AttentionProblem) -> AttentionPlan {
    Attention::new(device, &IMAGE).unwrap().plan(problem).unwrap_or_else(|e| panic!("{e}"))
}

fn bshd(q: u32, kv: u32, dim: u32, [batch, seq_q, seq_kv]: [u32; 3]) -> AttentionProblem {
    let sequences = Sequences::Equal { batch, q: seq_q, kv: seq_kv };
    AttentionProblem::bshd(Dtype::Bf16, Heads { q, kv, dim }, sequences)
}

fn packed([q, kv, dim]: [u32; 3], lengths: &[[u32; 2]]) -> AttentionProblem {
    let sequences = Sequences::packed(lengths.iter().copied());
    AttentionProblem::bshd(Dtype::Bf16, Heads { q, kv, dim }, sequences)
}

/// The elements of a tensor, by their place in its memory.
fn elements(problem: &AttentionProblem, operand: Operand) -> Vec<usize> {
    let ([batch, heads, rows, dim], strides) = (problem.sizes(operand), problem.strides(operand));
    let Strides { batch: sb, head: sh, seq: ss } = strides;
    let starts = (0..batch).flat_map(|b| (0..heads).map(move |h| b * sb + h * sh));
    let rows = starts.flat_map(|start| (0..rows).map(move |row| start + row * ss));
    rows.flat_map(|row| (row..row + dim).map(|at| at as usize)).collect()
}

/// Memory with 64 bytes, a tensor, and 64 bytes. The tensor has normal values; its gaps are NaN.
fn place(
    device: &Device,
    problem: &AttentionProblem,
    operand: Operand,
    seed: u64,
) -> (Buffer, Vec<f32>) {
    let (dtype, span) = (problem.dtype(operand), problem.span(operand).unwrap() as usize);
    let mut values = vec![f32::NAN; span];
    let at = elements(problem, operand);
    let normal = rounded(&normal(seed, at.len()), dtype).unwrap();
    at.iter().zip(normal).for_each(|(&at, x)| values[at] = x);
    let around = [AROUND; 64];
    let bytes = [&around[..], &encode(&values, dtype).unwrap(), &around].concat();
    // Only the elements are read, but the reference takes all as numbers.
    (device.upload(&bytes).unwrap(), values)
}

/// Runs a problem on a model and compares the result.
fn run(problem: &AttentionProblem, sms: u32) -> AttentionCheck {
    let device = device(sms);
    let [(q, q_values), (k, k_values), (v, v_values)] = [Operand::Q, Operand::K, Operand::V]
        .map(|operand| place(&device, problem, operand, operand as u64));
    let poisoned = |operand| {
        let bytes = problem.bytes(operand).unwrap() as usize;
        device.upload(&vec![AROUND; bytes + 128]).unwrap()
    };
    let (mut o, mut lse) = (poisoned(Operand::O), poisoned(Operand::Lse));
    let plan = plan(&device, problem);
    let view = |buffer: &Buffer| View::new(buffer).offset(64).dtype(problem.dtype);
    let to_lse = problem.lse.then(|| ViewMut::new(&mut lse).offset(64));
    let to_o = ViewMut::new(&mut o).offset(64);
    let run = plan.run(view(&q), view(&k), view(&v), to_o, to_lse);
    run.unwrap_or_else(|e| panic!("{problem:?}: {e}"));
    let inside = |buffer: &Buffer, operand| {
        let bytes = buffer.to_vec().unwrap();
        let end = 64 + problem.bytes(operand).unwrap() as usize;
        let untouched = |bytes: &[u8]| bytes.iter().all(|&b| b == AROUND);
        assert!(untouched(&bytes[..64]) && untouched(&bytes[end..]), "{operand} has an end");
        let mut gaps = vec![true; problem.span(operand).unwrap() as usize];
        for at in elements(problem, operand) {
            gaps[at] = false;
        }
        let size = problem.dtype(operand).size();
        let rows = bytes[64..end].chunks_exact(size).zip(gaps);
        rows.filter(|(_, gap)| *gap).for_each(|(x, _)| assert!(untouched(x), "a gap of {operand}"));
        decode(&bytes[64..end], problem.dtype(operand)).unwrap()
    };
    let (o, lse) = (inside(&o, Operand::O), problem.lse.then(|| inside(&lse, Operand::Lse)));
    let reference = reference::Attention { problem, q: &q_values, k: &k_values, v: &v_values };
    reference.check(&o, lse.as_deref()).unwrap()
}

fn passes(problem: &AttentionProblem) {
    let check = run(problem, 4);
    assert!(check.passed, "{problem:?}: {check}");
}

#[test]
fn every_kernel() {
    for instance in INSTANCES {
        let softcap = instance.soft_cap.then_some(2.0);
        let plain = if instance.packed {
            packed([2, 1, instance.head_dim], &[[130, 150], [3, 70]])
        } else {
            bshd(1, 1, instance.head_dim, [1, 130, 150])
        };
        passes(&AttentionProblem { dtype: instance.dtype, softcap, lse: true, ..plain });
    }
}

#[test]
fn the_keys_of_few_tiles_are_split() {
    for (dim, keys) in [(64, 3900), (128, 3900), (256, 1950)] {
        for mask in [Mask::FULL, Mask::CAUSAL, Mask { left: Some(keys - 300), right: Some(20) }] {
            for softcap in [None, Some(2.0)] {
                let plain = bshd(2, 1, dim, [1, 130, keys]);
                let problem = AttentionProblem { mask, softcap, lse: true, ..plain };
                assert!(plan(&device(16), &problem).describe().parts > 1, "{problem:?}");
                let check = run(&problem, 16);
                assert!(check.passed, "{problem:?}: {check}");
            }
        }
    }
}

#[test]
fn split_tiles_have_the_same_bits_under_other_schedules() {
    let problem = bshd(1, 1, 64, [1, 130, 3900]);
    let bits = |seed| {
        let device = Device::sim(SimConfig { sms: 6, seed, ..SimConfig::default() });
        let plan = plan(&device, &problem);
        assert!(plan.describe().parts > 1);
        let [q, k, v] = [Operand::Q, Operand::K, Operand::V]
            .map(|operand| place(&device, &problem, operand, operand as u64).0);
        let mut o = device.alloc(problem.bytes(Operand::O).unwrap() as usize).unwrap();
        let view = |buffer| View::new(buffer).offset(64).dtype(problem.dtype);
        // The second run finds the counters as the first one left them.
        for _ in 0..2 {
            plan.run(view(&q), view(&k), view(&v), &mut o, None).unwrap();
        }
        o.to_vec().unwrap()
    };
    let first = bits(0);
    assert!((1..6).all(|seed| bits(seed) == first));
}

#[test]
fn warp_groups_pass_over_blocks_between_tiles() {
    // Tiles of 128 and 192 queries, several on a CTA, whose groups see the diagonal in different blocks of keys, or nothing.
    for (dim, lengths) in
        [(64, [2, 620, 620]), (64, [1, 600, 230]), (128, [2, 420, 520]), (256, [1, 420, 390])]
    {
        let problem =
            AttentionProblem { mask: Mask::CAUSAL, lse: true, ..bshd(2, 1, dim, lengths) };
        for sms in [1, 3] {
            let check = run(&problem, sms);
            assert!(check.passed, "{problem:?} on {sms}: {check}");
        }
    }
    let problem = packed([2, 1, 64], &[[200, 200], [10, 400], [330, 330], [0, 5], [70, 64]]);
    let check = run(&AttentionProblem { mask: Mask::CAUSAL, lse: true, ..problem }, 2);
    assert!(check.passed, "{check}");
}

#[test]
fn masks_windows_and_rows_without_keys() {
    for mask in [Mask::CAUSAL, Mask::CAUSAL.window(40), Mask { left: Some(9), right: Some(20) }] {
        for lengths in [[1, 200, 200], [1, 140, 300], [1, 270, 130]] {
            passes(&AttentionProblem { mask, lse: true, ..bshd(1, 1, 64, lengths) });
        }
    }
}

#[test]
fn packed_sequences() {
    // Of one row, of none, of rows that end with a tile, and longer ones; also a batch of one.
    let lengths: [&[[u32; 2]]; 4] = [
        &[[200, 200]],
        &[[1, 1], [130, 257], [0, 5], [64, 0], [128, 128], [3, 300]],
        &[[5, 1], [1, 200], [129, 40]],
        &[[0, 0], [17, 33], [0, 0]],
    ];
    for lengths in lengths {
        for mask in [Mask::FULL, Mask::CAUSAL, Mask::CAUSAL.window(40)] {
            passes(&AttentionProblem { mask, lse: true, ..packed([2, 1, 64], lengths) });
        }
    }
    // [heads, total, dim], and another width than the kernel's.
    let sequences = Sequences::packed([[70, 90], [20, 150]]);
    let bhsd = AttentionProblem::bhsd(Dtype::F16, Heads { q: 2, kv: 2, dim: 136 }, sequences);
    passes(&AttentionProblem { mask: Mask::CAUSAL, lse: true, ..bhsd });
}

/// A sequence's neighbours are not even multiplied by zero: infinities in them stay there.
#[test]
fn what_lies_beside_a_sequence_is_not_read() {
    let problem = packed([1, 1, 64], &[[100, 100], [100, 100], [100, 100]]);
    let device = device(4);
    let mut values = normal(1, 300 * 64);
    for (i, x) in values.iter_mut().enumerate() {
        if !(6400..12800).contains(&i) {
            *x = f32::INFINITY;
        }
    }
    let values = rounded(&values, Dtype::Bf16).unwrap();
    let operand = device.upload(&encode(&values, Dtype::Bf16).unwrap()).unwrap();
    let mut o = device.alloc(operand.len()).unwrap();
    let plan = plan(&device, &problem);
    plan.run(&operand, &operand, &operand, &mut o, None).unwrap();
    let o = decode(&o.to_vec().unwrap(), Dtype::Bf16).unwrap();
    assert!(o[6400..12800].iter().all(|x| x.is_finite()));
}

#[test]
fn one_query_and_one_key() {
    for lengths in [[1, 1, 1], [1, 1, 129], [1, 129, 1], [3, 1, 7]] {
        for mask in [Mask::FULL, Mask::CAUSAL] {
            passes(&AttentionProblem { mask, lse: true, ..bshd(2, 1, 64, lengths) });
        }
    }
}

#[test]
fn shared_heads_other_widths_and_factors() {
    passes(&bshd(6, 2, 64, [2, 65, 100]));
    passes(&AttentionProblem { scale: Some(0.9), ..bshd(2, 2, 80, [1, 100, 100]) });
    passes(&AttentionProblem { lse: true, ..bshd(1, 1, 8, [1, 100, 100]) });
    let sequences = Sequences::Equal { batch: 2, q: 70, kv: 90 };
    let heads = Heads { q: 2, kv: 1, dim: 136 };
    let bhsd = AttentionProblem::bhsd(Dtype::F16, heads, sequences);
    passes(&AttentionProblem { mask: Mask::CAUSAL, ..bhsd });
}

#[test]
fn strided_operands() {
    // Q, K and V side by side in each row, as a projection leaves them; O with a gap after each head and row.
    let p = bshd(2, 2, 64, [2, 100, 100]);
    let side = Strides { batch: 100 * 384, head: 64, seq: 384 };
    let o = Strides { batch: 101 * 200, head: 72, seq: 200 };
    passes(&AttentionProblem { q: side, k: side, v: side, o, lse: true, ..p });
    // One head of keys for all sequences: a stride of 0.
    let p = bshd(1, 1, 64, [2, 70, 70]);
    passes(&AttentionProblem { k: Strides { batch: 0, ..p.k }, ..p });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn any_problem(
        heads in (1u32..3, 1u32..3, 1u32..12), lengths in (1u32..3, 1u32..280, 1u32..280),
        window in (proptest::option::of(0u32..200), proptest::option::of(0u32..100)),
        bits: [bool; 3], sms in 1u32..5,
    ) {
        let heads = Heads { q: heads.0 * heads.1, kv: heads.0, dim: 8 * heads.2 };
        let sequences = Sequences::Equal { batch: lengths.0, q: lengths.1, kv: lengths.2 };
        let layout = if bits[0] { AttentionProblem::bshd } else { AttentionProblem::bhsd };
        let dtype = if bits[1] { Dtype::Bf16 } else { Dtype::F16 };
        let problem = AttentionProblem {
            mask: Mask { left: window.0, right: window.1 },
            softcap: bits[2].then_some(3.0), lse: true, ..layout(dtype, heads, sequences)
        };
        let check = run(&problem, sms);
        prop_assert!(check.passed, "{problem:?}: {check}");
    }
}

#[test]
fn views_that_a_plan_cannot_use() {
    let (device, problem) = (device(1), bshd(2, 1, 64, [1, 16, 16]));
    let plan = plan(&device, &problem);
    // Q and O have 16 x 128 elements, K and V half of them.
    let [q, k, v, mut o] = [4096, 2048, 2048, 4096].map(|bytes| device.alloc(bytes).unwrap());
    let large = device.alloc(16384).unwrap();
    let refused = |words: &str, result: Result<(), Error>| {
        let text = result.expect_err(words).to_string();
        assert!(text.contains(words) && text.lines().count() == 1, "{text}");
    };
    let mut bind = |q: View<'_>, k: View<'_>| plan.bind(q, k, &v, &mut o, None).map(drop);
    bind(View::from(&q), View::from(&k)).unwrap();
    let (whole, at) = (|| View::from(&k), |offset| View::new(&large).offset(offset));
    bind(at(16), whole()).unwrap();
    bind(at(0).pitch(256), whole()).unwrap();
    refused("operand Q needs 4096 bytes; the buffer has 2048", bind(whole(), whole()));
    refused("operand Q needs 4096 bytes; the buffer has 16384", bind((&large).into(), whole()));
    refused("4096 bytes from byte 12304 exceeds", bind(at(12304), whole()));
    refused("exceeds its buffer", bind(at(u64::MAX), whole()));
    refused("must be a multiple of 16", bind(at(8), whole()));
    refused("row pitch is 512 bytes", bind(at(0).pitch(512), whole()));
    refused("elements of f16; the plan has bf16", bind(at(0).dtype(Dtype::F16), whole()));
    let other = Device::sim(SimConfig::default()).alloc(4096).unwrap();
    refused("attention operand Q belongs to", bind((&other).into(), whole()));

    let mut lse = device.alloc(128).unwrap();
    let with_lse = plan.bind(&q, &k, &v, &mut o, Some((&mut lse).into())).map(drop);
    refused("planned without LSE and is run with LSE", with_lse);
    // O in the memory of V, beside it, and between its rows.
    let mut shared = device.alloc(16384).unwrap();
    let in_shared = View::new(&shared).offset(4096);
    let mut to = |offset| {
        let o = ViewMut::new(&mut shared).offset(offset);
        plan.bind(&q, &k, in_shared.clone(), o, None).map(drop)
    };
    for offset in [16, 4096, 6144 - 16] {
        refused("operand V at", to(offset));
    }
    to(0).unwrap();
    to(6144).unwrap();
}

#[test]
fn lse_has_memory_of_its_own() {
    let (device, p) = (device(1), bshd(1, 1, 64, [1, 16, 16]));
    let plan = plan(&device, &AttentionProblem { lse: true, ..p });
    let mut memory = device.alloc(8192).unwrap();
    let [q, k, v] = [0, 2048, 4096].map(|offset| View::new(&memory).offset(offset));
    let mut to = |o, lse| {
        let o = ViewMut::new(&mut memory).offset(o);
        let lse = ViewMut::new(&mut memory).offset(lse);
        plan.bind(q.clone(), k.clone(), v.clone(), o, Some(lse)).map(drop)
    };
    let text = to(6144 - 64, 8128).unwrap_err().to_string();
    assert!(text.contains("operand V at") && text.contains("overlaps O at"), "{text}");
    let text = to(6144, 6144 + 2048 - 64).unwrap_err().to_string();
    assert!(text.contains("operand O at") && text.contains("overlaps LSE at"), "{text}");
    let text = to(6144, 2).unwrap_err().to_string();
    assert!(text.contains("operand LSE at address") && text.contains("multiple of 4"), "{text}");
}

#[test]
fn plans_say_what_they_are() {
    let device = device(3);
    let problem = AttentionProblem { mask: Mask::CAUSAL, ..bshd(4, 2, 80, [2, 200, 300]) };
    let plan = plan(&device, &problem);
    let info = plan.describe();
    assert_eq!(
        (info.kernel.as_str(), info.ctas, info.tiles),
        ("attention_bf16_d128_128x128", 3, 16)
    );
    assert!(info.why.contains("head dim 80") && info.why.contains("128"), "{}", info.why);
    let text = info.to_string();
    for words in ["2 sequences, 4 query and 2 key heads of 80", "causal", "16 tiles", "3 CTAs"] {
        assert!(text.contains(words), "{text}");
    }
    let attention = Attention::new(&device, &IMAGE).unwrap();
    let d64 = INSTANCES.iter().position(|i| i.head_dim == 64 && i.dtype == Dtype::Bf16);
    let text = attention.plan_with(&problem, d64.unwrap()).err().unwrap().to_string();
    assert!(text.contains("it computes bf16 head dim 64"), "{text}");
    let text = attention.plan_with(&problem, 99).err().unwrap().to_string();
    let count = format!("instance 99 of {}", attention.kernels().count());
    assert!(text.contains(&count) && text.contains("no such row"), "{text}");
    let packed = packed([4, 2, 80], &[[3, 4], [5, 6]]);
    let name = attention.plan(&packed).unwrap().describe().kernel.clone();
    assert_eq!(name, "attention_bf16_d128_128x128_packed");
    let text = attention.plan_with(&packed, d64.unwrap()).err().unwrap().to_string();
    assert!(text.contains("it computes bf16 head dim 64"), "{text}");
    let none = Attention::with_instances(&device, &IMAGE, &[]).unwrap();
    let text = none.plan(&problem).err().unwrap().to_string();
    assert_eq!(text, "no attention kernel for bf16, head dim 80; the table of 0 has: nothing");
    let text = none.plan(&packed).err().unwrap().to_string();
    assert!(
        text.starts_with("no attention kernel for bf16, head dim 80 of packed sequences;"),
        "{text}"
    );
}

/// A table of one row, which differs from one of the kernels' table.
fn table(change: impl FnOnce(&mut Instance)) -> &'static [Instance] {
    let mut row = *INSTANCES.iter().find(|i| !i.windows && !i.packed && !i.soft_cap).unwrap();
    change(&mut row);
    vec![row].leak()
}

#[test]
fn a_row_of_a_table_that_contradicts_its_kernel_is_refused() {
    let device = device(3);
    let refused = |change: fn(&mut Instance), words: &str| {
        let error = Attention::with_instances(&device, &IMAGE, table(change)).err().unwrap();
        assert!(error.to_string().ends_with(words), "{error}");
    };
    refused(|i| i.bm = 128, ": the table says tiles of 128 queries; the kernel has 192");
    refused(|i| i.bn = 64, ": the table says blocks of 64 keys; the kernel has 128");
    refused(|i| i.bn = 0, ": tile 192x0x64: no size may be 0");
    refused(|i| i.soft_cap = true, ": the table says a soft cap; the kernel takes no SoftCap");
    let more = |i: &mut Instance| i.head_dim = 256;
    let error = Attention::with_instances(&device, &IMAGE, table(more)).err().unwrap().to_string();
    let words = "192 queries and 2 blocks of 128 keys and values with 256 columns take 360448 bytes of shared memory; the kernel has ";
    assert!(error.contains(words), "{error}");
}

#[test]
fn a_row_of_a_table_of_decode_kernels_that_contradicts_its_kernel_is_refused() {
    let device = device(3);
    let refused = |change: fn(&mut DecodeInstance), words: &str| {
        let mut row = *DECODE_INSTANCES.iter().find(|i| i.head_dim == 128 && i.bn == 64).unwrap();
        change(&mut row);
        let error = Attention::with_tables(&device, &IMAGE, &[], vec![row].leak()).err().unwrap();
        assert!(error.to_string().contains(words), "{error}");
    };
    refused(|i| i.bn = 128, ": the table says blocks of 128 keys; the kernel has 64");
    refused(
        |i| i.stages = 4,
        ": 64 rows and 4 blocks of 64 keys and values with 128 columns take 147456 bytes of shared memory; the kernel has ",
    );
    // Columns that the kernel does not have, and a stage less.
    refused(
        |i| (i.head_dim, i.stages) = (208, 1),
        ": 64 rows and 1 blocks of 64 keys and values with 208 columns take 79872 bytes of shared memory; the kernel has ",
    );
    refused(|i| i.stages = 1, ": 64 rows and 1 blocks of 64 keys and values with 128 columns");
    refused(|i| i.head_dim = 0, ": head dim 0, 2 stages: neither may be 0");
}

#[test]
fn a_table_without_windows_says_so() {
    let attention = Attention::with_instances(&device(3), &IMAGE, table(|_| {})).unwrap();
    let mask = Mask { left: Some(100), right: Some(0) };
    let problem = AttentionProblem { mask, ..bshd(4, 2, 64, [2, 300, 300]) };
    let text = attention.plan(&problem).err().unwrap().to_string();
    assert_eq!(
        text,
        "no attention kernel for bf16, head dim 64 with a left window; the table of 1 has: \
         bf16 head dim 64 without a left window"
    );
}

#[test]
fn plans_and_bound_plans_can_be_shared_by_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<AttentionPlan>();
    shared::<host::attention::BoundAttention<'_>>();
}
