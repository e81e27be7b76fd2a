//! Few queries with many keys, on the SM model: results against the f64 reference, with NaN behind the keys of each
//! cache and in the pages that nobody uses.

use crate::model_attention::{AROUND, IMAGE, device};
use gpu_kernels::attention::SoftCap;
use gpu_kernels::attention::decode::DECODE_INSTANCES;
use host::attention::{
    Attention, AttentionPlan, AttentionProblem, Heads, Mask, Operand, Sequences, Strides,
};
use host::data::{decode, encode, normal, rounded};
use host::reference::{self, AttentionCheck, gather_pages};
use host::{Buffer, Device, Dtype, ViewMut};

fn problem(heads: [u32; 3], sequences: Sequences) -> AttentionProblem {
    let [q, kv, dim] = heads;
    let plain = AttentionProblem::bshd(Dtype::Bf16, Heads { q, kv, dim }, sequences);
    AttentionProblem { lse: true, ..plain }
}

/// Normal values, and NaN in the rows of K and V that belong to no key.
fn values(problem: &AttentionProblem, operand: Operand, block_table: &[u32]) -> Vec<f32> {
    let span = problem.span(operand).unwrap() as usize;
    let normal = rounded(&normal(operand as u64, span), problem.dtype).unwrap();
    let (keys, per) = match &problem.sequences {
        Sequences::Cache { keys, .. } => (keys, 1),
        Sequences::Paged { keys, sequence_pages, .. } => (keys, *sequence_pages),
        _ => return normal,
    };
    if operand == Operand::Q {
        return normal;
    }
    let ([batches, heads, rows, dim], strides) = (problem.sizes(operand), problem.strides(operand));
    let mut values = vec![f32::NAN; span];
    for page in 0..batches {
        // The rows of the page that are keys.
        let used = match block_table.iter().position(|&p| u64::from(p) == page) {
            Some(at) => {
                let (b, index) = (at as u32 / per, at as u32 % per);
                u64::from(keys[b as usize]).saturating_sub(u64::from(index) * rows).min(rows)
            }
            None => 0,
        };
        for head in 0..heads {
            for row in 0..used {
                let at = (page * strides.batch + head * strides.head + row * strides.seq) as usize;
                values[at..at + dim as usize].copy_from_slice(&normal[at..at + dim as usize]);
            }
        }
    }
    values
}

/// The pages of the sequences of a cache: those of a paged one in a shuffled order, each page used once.
fn block_table(sequences: &Sequences) -> Vec<u32> {
    match sequences {
        Sequences::Paged { keys, pages, sequence_pages, .. } => {
            let count = keys.len() as u32 * sequence_pages;
            assert!(count < *pages);
            (0..count).map(|at| (at * 7 + 3) % pages).collect()
        }
        _ => (0..sequences.batch()).collect(),
    }
}

struct Operands {
    table: Vec<u32>,
    values: [Vec<f32>; 3],
    buffers: [Buffer; 3],
}

impl Operands {
    fn new(device: &Device, problem: &AttentionProblem) -> Self {
        let table = block_table(&problem.sequences);
        let values = [Operand::Q, Operand::K, Operand::V].map(|o| values(problem, o, &table));
        let upload = |x: &Vec<f32>| device.upload(&encode(x, problem.dtype).unwrap()).unwrap();
        let buffers = values.each_ref().map(upload);
        Self { table, values, buffers }
    }

    fn check(&self, problem: &AttentionProblem, o: &[f32], lse: &[f32]) -> AttentionCheck {
        let [q, k, v] = &self.values;
        if let Sequences::Paged { .. } = problem.sequences {
            let all = gather_pages(problem, &self.table, k, v).unwrap();
            let paged = reference::Attention { problem: &all.problem, q, k: &all.k, v: &all.v };
            return paged.check(o, Some(lse)).unwrap();
        }
        reference::Attention { problem, q, k, v }.check(o, Some(lse)).unwrap()
    }
}

/// Plans a problem, runs it, and once more with each of the `further` lengths.
fn passes(problem: &AttentionProblem, sms: u32, further: &[Vec<u32>]) {
    let device = device(sms);
    let attention = Attention::new(&device, &IMAGE).unwrap();
    let plan = attention.plan(problem).unwrap_or_else(|e| panic!("{e}"));
    assert!(plan.describe().kernel.contains("_decode"), "{}", plan.describe());
    plan_passes(&device, &plan, problem, further);
}

/// Runs a plan, and once more with each of the `further` lengths.
fn plan_passes(
    device: &Device,
    plan: &AttentionPlan,
    problem: &AttentionProblem,
    further: &[Vec<u32>],
) {
    let mut problem = problem.clone();
    for round in 0..=further.len() {
        if round > 0 {
            let lengths = &further[round - 1];
            plan.set_keys(lengths, &device.stream()).unwrap();
            match &mut problem.sequences {
                Sequences::Cache { keys, .. } | Sequences::Paged { keys, .. } => {
                    keys.clone_from(lengths);
                }
                _ => unreachable!(),
            }
        }
        let operands = Operands::new(device, &problem);
        let poisoned =
            |operand| device.upload(&vec![AROUND; problem.bytes(operand).unwrap() as usize]);
        let (mut o, mut lse) = (poisoned(Operand::O).unwrap(), poisoned(Operand::Lse).unwrap());
        let [q, k, v] = &operands.buffers;
        let bytes: Vec<u8> = operands.table.iter().flat_map(|page| page.to_ne_bytes()).collect();
        let table = device.upload(&bytes).unwrap();
        let to_lse = Some(ViewMut::from(&mut lse));
        let bound = match problem.sequences {
            Sequences::Paged { .. } => plan.bind_paged(q, k, v, &table, &mut o, to_lse),
            _ => plan.bind(q, k, v, &mut o, to_lse),
        };
        bound.unwrap().run(&device.stream()).unwrap_or_else(|e| panic!("{problem:?}: {e}"));
        let o = decode(&o.to_vec().unwrap(), problem.dtype).unwrap();
        let lse = decode(&lse.to_vec().unwrap(), Dtype::F32).unwrap();
        let check = operands.check(&problem, &o, &lse);
        assert!(check.passed, "{problem:?}: {check}");
    }
}

#[test]
fn every_decode_kernel() {
    let device = device(3);
    let attention = Attention::new(&device, &IMAGE).unwrap();
    for (row, instance) in DECODE_INSTANCES.iter().enumerate() {
        let columns = [4, 1, instance.head_dim];
        let of =
            |sequences| AttentionProblem { dtype: instance.dtype, ..problem(columns, sequences) };
        // Blocks that begin, that end and that are cut among CTAs; lengths that change.
        let cache = Sequences::Cache { q: 2, keys: vec![600, 128, 0, 129], capacity: 640 };
        let pages = Sequences::Paged {
            q: 1,
            keys: vec![300, 128],
            pages: 9,
            page_rows: 128,
            sequence_pages: 3,
        };
        for (sequences, further) in [
            (Sequences::Equal { batch: 1, q: 1, kv: 200 }, vec![]),
            (cache, vec![vec![1, 640, 127, 0]]),
            (pages, vec![]),
        ] {
            let problem = of(sequences);
            let plan = attention.plan_with(&problem, attention.instances().len() + row).unwrap();
            assert_eq!(plan.describe().kernel, instance.desc.meta.name());
            plan_passes(&device, &plan, &problem, &further);
        }
    }
}

/// Few queries take blocks of 16 KiB of keys, and tiles that share their keys the largest blocks, if pages hold them.
#[test]
fn blocks_of_keys_suit_queries_and_pages() {
    let device = device(4);
    let attention = Attention::new(&device, &IMAGE).unwrap();
    let equal = |q| Sequences::Equal { batch: 1, q, kv: 4096 };
    let cache = |q| Sequences::Cache { q, keys: vec![0], capacity: 4096 };
    let paged = |q, page_rows| {
        let pages = 4096u32.div_ceil(page_rows);
        Sequences::Paged { q, keys: vec![4096], pages, page_rows, sequence_pages: pages }
    };
    for (sequences, dim, bn) in [
        (equal(1), 128, 64),
        (equal(8), 128, 64),
        (cache(1), 128, 64),
        (cache(9), 128, 128),
        (paged(1, 128), 128, 64),
        (paged(9, 128), 128, 128),
        (paged(9, 192), 128, 64),
        (equal(1), 64, 128),
        (cache(9), 64, 128),
        (paged(1, 192), 64, 64),
        (equal(1), 256, 64),
    ] {
        let plan = attention.plan(&problem([8, 1, dim], sequences.clone())).unwrap();
        let what = format!("{sequences:?} of {dim} columns");
        assert_eq!(plan.describe().tile[1], bn, "{what}: {}", plan.describe());
    }
}

/// The decode kernels of warpipe's table have no place for a score of one's own, so a run with one is refused and not computed
/// without it.
#[test]
fn a_decode_kernel_takes_no_score() {
    let device = device(2);
    let attention = Attention::new(&device, &IMAGE).unwrap();
    let sequences = Sequences::Cache { q: 1, keys: vec![3], capacity: 8 };
    let problem = AttentionProblem { lse: false, ..problem([2, 1, 64], sequences) };
    let plan = attention.plan(&problem).unwrap();
    let Operands { buffers: [q, k, v], .. } = Operands::new(&device, &problem);
    let mut o = device.alloc(problem.span(Operand::O).unwrap() as usize * 2).unwrap();
    let bound = plan.bind(&q, &k, &v, &mut o, None).unwrap();
    let error = bound.run_with(SoftCap { cap: 2.0 }, &device.stream()).unwrap_err().to_string();
    let kernel = &plan.describe().kernel;
    assert!(error.starts_with(&format!("decode kernel {kernel} takes no score")), "{error}");
    assert_eq!(error.lines().count(), 1);
    bound.run(&device.stream()).unwrap();
}

#[test]
fn rows_of_heads_and_queries() {
    // Heads that share keys: one, a power of two, others, and more than a tile has.
    for (q, kv, queries) in [(2, 2, 1), (3, 1, 5), (14, 2, 9), (65, 1, 1), (1, 1, 70)] {
        for mask in [Mask::FULL, Mask::CAUSAL, Mask::CAUSAL.window(50)] {
            let sequences = Sequences::Cache { q: queries, keys: vec![100, 7], capacity: 130 };
            passes(&AttentionProblem { mask, ..problem([q, kv, 64], sequences) }, 4, &[]);
        }
    }
}

#[test]
fn lengths_that_change() {
    let sequences = Sequences::Cache { q: 2, keys: vec![300, 0, 1, 64, 65], capacity: 320 };
    let further = [vec![0; 5], vec![320; 5], vec![1, 2, 3, 320, 0], vec![320, 0, 0, 0, 0]];
    let softcap = Some(3.0);
    let problem = AttentionProblem { softcap, ..problem([2, 1, 64], sequences) };
    for sms in [1, 3, 16] {
        passes(&problem, sms, &further);
    }
}

#[test]
fn pages() {
    let sequences = |page_rows| Sequences::Paged {
        q: 1,
        keys: vec![200, 64, 129],
        pages: 17,
        page_rows,
        sequence_pages: 4,
    };
    let further = [vec![1, 256, 0], vec![255, 255, 255]];
    passes(&problem([8, 2, 64], sequences(64)), 5, &further);
    passes(&problem([8, 2, 64], sequences(128)), 5, &[]);
    // [pages, heads, rows, dim].
    let by_head = Strides::bhsd(2, 64, 128);
    let heads_first =
        AttentionProblem { k: by_head, v: by_head, ..problem([8, 2, 128], sequences(64)) };
    passes(&heads_first, 5, &[]);
}

#[test]
fn a_page_that_does_not_exist_is_zeros() {
    let device = device(2);
    let sequences =
        Sequences::Paged { q: 1, keys: vec![128], pages: 2, page_rows: 64, sequence_pages: 2 };
    let problem = problem([1, 1, 64], sequences);
    let plan = Attention::new(&device, &IMAGE).unwrap().plan(&problem).unwrap();
    let ones = |operand| {
        let values = vec![1.0; problem.span(operand).unwrap() as usize];
        device.upload(&encode(&values, problem.dtype).unwrap()).unwrap()
    };
    let (q, k, v) = (ones(Operand::Q), ones(Operand::K), ones(Operand::V));
    let table: Vec<u8> = [1u32, u32::MAX].iter().flat_map(|page| page.to_ne_bytes()).collect();
    let (table, mut o) = (device.upload(&table).unwrap(), ones(Operand::O));
    let mut lse = device.alloc(4).unwrap();
    let bound = plan.bind_paged(&q, &k, &v, &table, &mut o, Some(ViewMut::from(&mut lse))).unwrap();
    bound.run(&device.stream()).unwrap();
    let o = decode(&o.to_vec().unwrap(), problem.dtype).unwrap();
    // Half of the keys have score 8 and value 1, half have score 0 and value 0.
    let want = 1.0 / (1.0 + (-8.0f32).exp());
    assert!(o.iter().all(|x| (x - want).abs() < 0.01), "{o:?}");
}

#[test]
fn bad_lengths_pages_and_strides() {
    let refused = |sequences: Sequences| {
        let error = problem([2, 1, 64], sequences).check().unwrap_err().to_string();
        assert_eq!(error.lines().count(), 1, "{error}");
        error
    };
    let cache = |keys, capacity| Sequences::Cache { q: 1, keys, capacity };
    assert!(
        refused(cache(vec![3, 9], 8)).contains("sequence 1 has 9 keys; its cache has room for 8")
    );
    assert!(refused(cache(vec![], 8)).contains("0 sequences"));
    let paged = |page_rows| Sequences::Paged {
        q: 1,
        keys: vec![8],
        pages: 4,
        page_rows,
        sequence_pages: 2,
    };
    assert!(refused(paged(48)).contains("pages of 48 rows; a multiple of 64"));
    let odd = Strides { batch: 8 * 64 * 3 + 8, head: 64, seq: 64 };
    let strides = AttentionProblem { k: odd, ..problem([2, 1, 64], cache(vec![3, 3], 8)) };
    assert!(strides.check().unwrap_err().to_string().contains("multiple of the seq stride, 64"));

    let device = device(2);
    let attention = Attention::new(&device, &IMAGE).unwrap();
    let plan = attention.plan(&problem([2, 1, 64], cache(vec![3, 8], 8))).unwrap();
    let stream = device.stream();
    let message = |keys: &[u32]| plan.set_keys(keys, &stream).unwrap_err().to_string();
    assert!(message(&[1]).contains("1 lengths for 2 sequences"));
    assert!(message(&[1, 10]).contains("sequence 1 has 10 keys"));
    plan.set_keys(&[2, 5], &stream).unwrap();
    plan.synchronize().unwrap();
    let equal = Sequences::Equal { batch: 1, q: 300, kv: 300 };
    let tiles = attention.plan(&problem([2, 1, 64], equal)).unwrap();
    let message = tiles.set_keys(&[300], &stream).unwrap_err().to_string();
    assert!(message.contains("no cache: its sequences are equal"), "{message}");
}
