//! Every attention kernel on the SM model and on a GPU, and on a GPU larger problems, graphs and streams.
//!
//! The shapes reach partial tiles and blocks, tiles of one block, more tiles than CTAs, rows that see no key, heads that
//! share keys, windows whose edges lie within a block, and heads with fewer columns than the kernel.

use crate::gpu::gpu;
use crate::on_devices::on_devices;
use warpipe::GEMM_IMAGE;
use warpipe::gpu_kernels::attention::Instance;
use warpipe::host::attention::{
    Attention, AttentionPlan, AttentionProblem, Heads, Mask, Operand, Sequences, Strides,
};
use warpipe::host::data::{decode, encode, normal, rounded};
use warpipe::host::{Buffer, Device, Dtype, Error, ViewMut, reference};

/// A problem with its operands on a device.
pub struct Case {
    what: String,
    pub problem: AttentionProblem,
    values: [Vec<f32>; 3],
    inputs: [Buffer; 3],
}

/// O and LSE as bytes.
type Bits = (Vec<u8>, Vec<u8>);

impl Case {
    /// Normal values; those of Q times `peak`.
    pub fn new(device: &Device, what: &str, problem: AttentionProblem, peak: f32) -> Self {
        let problem = AttentionProblem { lse: true, ..problem };
        let values = [Operand::Q, Operand::K, Operand::V].map(|operand| {
            let by = if operand == Operand::Q { peak } else { 1.0 };
            let values = normal(operand as u64, problem.span(operand).unwrap() as usize);
            let values: Vec<f32> = values.iter().map(|x| by * x).collect();
            rounded(&values, problem.dtype).unwrap()
        });
        let upload = |values: &Vec<f32>| device.upload(&encode(values, problem.dtype).unwrap());
        let inputs = values.each_ref().map(|values| upload(values).unwrap());
        Self { what: format!("{what}: {problem:?}"), problem, values, inputs }
    }

    /// O and LSE with NaN everywhere.
    fn results(&self, device: &Device) -> [Buffer; 2] {
        [Operand::O, Operand::Lse].map(|operand| {
            let mut buffer = device.alloc(self.problem.bytes(operand).unwrap() as usize).unwrap();
            buffer.fill(0xff).unwrap();
            buffer
        })
    }

    /// Runs a plan once.
    fn run(&self, device: &Device, plan: &AttentionPlan) -> Bits {
        let ([q, k, v], [mut o, mut lse]) = (&self.inputs, self.results(device));
        let run = plan.run(q, k, v, &mut o, Some(ViewMut::from(&mut lse)));
        run.unwrap_or_else(|e| panic!("{}:\n{e}", self.what));
        (o.to_vec().unwrap(), lse.to_vec().unwrap())
    }

    /// Runs a plan twice and compares the result.
    pub fn computes(&self, device: &Device, plan: &AttentionPlan) {
        let first = self.run(device, plan);
        // The model runs the same launch in the same way.
        if !device.is_sim() {
            assert!(first == self.run(device, plan), "{}: two runs differ", self.what);
        }
        self.check(&first);
    }

    /// Compares a result with the reference.
    fn check(&self, (o, lse): &Bits) {
        let ([q, k, v], problem) = (&self.values, &self.problem);
        let (o, lse) = (decode(o, problem.dtype).unwrap(), decode(lse, Dtype::F32).unwrap());
        let check = reference::Attention { problem, q, k, v }.check(&o, Some(&lse)).unwrap();
        assert!(check.passed, "{}: {check}", self.what);
    }
}

fn bshd(
    dtype: Dtype,
    [q, kv, dim]: [u32; 3],
    [batch, seq_q, seq_kv]: [u32; 3],
) -> AttentionProblem {
    let sequences = Sequences::Equal { batch, q: seq_q, kv: seq_kv };
    AttentionProblem::bshd(dtype, Heads { q, kv, dim }, sequences)
}

/// Runs an instance twice on `device` and compares the result.
fn computes(device: &Device, what: &str, index: usize, problem: AttentionProblem, peak: f32) {
    let attention = Attention::new(device, &GEMM_IMAGE).unwrap();
    let case = Case::new(device, what, problem, peak);
    let plan = attention.plan_with(&case.problem, index).unwrap_or_else(|e| panic!("{e}"));
    case.computes(device, &plan);
}

/// A problem that an instance computes. For packed sequences the longest one has the lengths given, and others have
/// less, no queries, or no keys.
fn of(i: &Instance, heads: [u32; 2], less: u32, lengths: [u32; 3], mask: Mask) -> AttentionProblem {
    let [q, kv] = heads;
    let [batch, seq_q, seq_kv] = lengths;
    let plain = if i.packed {
        let part = |length: u32, b: u32| length * (b + 1) / batch;
        let each = (0..batch).map(|b| [part(seq_q, b), part(seq_kv, batch - 1 - b)]);
        let others = [[0, seq_kv.min(9)], [seq_q.min(70), 0], [1, 1]];
        let sequences = Sequences::packed(others.into_iter().chain(each));
        AttentionProblem::bshd(i.dtype, Heads { q, kv, dim: i.head_dim - less }, sequences)
    } else {
        bshd(i.dtype, [q, kv, i.head_dim - less], lengths)
    };
    AttentionProblem { mask, softcap: i.soft_cap.then_some(5.0), ..plain }
}

#[test]
fn every_instance_computes() {
    on_devices(&GEMM_IMAGE, "every_instance_computes", 1, |bench| {
        let attention = Attention::new(&bench.device, &GEMM_IMAGE).unwrap();
        for (index, i) in attention.instances().iter().enumerate() {
            let device = &bench.device;
            let run = |problem, peak| computes(device, bench.what(), index, problem, peak);
            run(of(i, [2, 1], 0, [1, 150, 140], Mask::CAUSAL), 1.0);
            if device.is_sim() {
                continue;
            }
            let window = |left, right| Mask { left: i.windows.then_some(left), right: Some(right) };
            run(of(i, [3, 3], 8, [2, 700, 900], Mask::FULL), 1.0);
            run(of(i, [8, 2], 0, [2, 700, 700], Mask::CAUSAL), 30.0);
            run(of(i, [2, 1], 0, [2, 1100, 300], Mask::CAUSAL), 1.0);
            run(of(i, [4, 4], 24, [1, 1025, 2000], window(100, 30)), 3.0);
            // More tiles than CTAs.
            run(of(i, [24, 8], 0, [1, 1500, 1500], window(100, 0)), 1.0);
            run(of(i, [1, 1], 0, [1, 1, 16384], Mask::CAUSAL), 1.0);
            run(of(i, [1, 1], 0, [1, 16384, 1], Mask::FULL), 1.0);
        }
    });
}

/// Also heads that leave a panel of 64 columns empty: TMA loads boxes that lie wholly outside of K and V. The cache of 65536 keys is
/// far from the memory in front of it.
#[test]
fn every_decode_instance_computes() {
    on_devices(&GEMM_IMAGE, "every_decode_instance_computes", 1, |bench| {
        let device = &bench.device;
        let attention = Attention::new(device, &GEMM_IMAGE).unwrap();
        for (row, i) in attention.decode_instances().iter().enumerate() {
            let run = |[q, kv]: [u32; 2], less: u32, queries: u32, keys: &[u32]| {
                let capacity = keys.iter().max().copied().unwrap_or(1) + 3;
                let sequences = Sequences::Cache { q: queries, keys: keys.to_vec(), capacity };
                let heads = Heads { q, kv, dim: i.head_dim - less };
                let problem = AttentionProblem::bshd(i.dtype, heads, sequences);
                let problem = AttentionProblem { mask: Mask::CAUSAL, ..problem };
                computes(device, bench.what(), attention.instances().len() + row, problem, 1.0);
            };
            let panel = if i.head_dim > 64 { 64 } else { 8 };
            run([8, 1], panel, 2, &[150, 2]);
            if device.is_sim() {
                continue;
            }
            run([8, 1], 0, 1, &[1, 0, 4096, 1000]);
            run([64, 8], panel, 3, &[1024; 3]);
            run([6, 6], 8, 9, &[700, 64, 129]);
            run([16, 2], panel, 1, &[65536]);
        }
    });
}

#[test]
fn long_sequences_on_a_gpu() {
    let Some(device) = gpu("long_sequences_on_a_gpu") else { return };
    let attention = Attention::new(&device, &GEMM_IMAGE).unwrap();
    for (index, i) in attention.instances().iter().enumerate() {
        for (mask, peak) in [(Mask::FULL, 1.0), (Mask::CAUSAL, 30.0)] {
            computes(&device, "long", index, of(i, [4, 1], 0, [1, 16384, 16384], mask), peak);
        }
    }
}

/// One head of keys for all sequences, of which TMA gets a stride of 0, and operands between each other's rows.
#[test]
fn strides_of_all_kinds() {
    on_devices(&GEMM_IMAGE, "strides_of_all_kinds", 1, |bench| {
        let attention = Attention::new(&bench.device, &GEMM_IMAGE).unwrap();
        let p = bshd(Dtype::Bf16, [2, 2, 64], [2, 140, 140]);
        let repeated = Strides { batch: 0, ..p.k };
        let row = 2 * 128 + 8;
        let gaps = Strides { batch: 150 * row, head: 128 + 8, seq: row };
        let bhsd = AttentionProblem::bhsd(p.dtype, p.heads, p.sequences.clone());
        let problems = [
            AttentionProblem { k: repeated, v: repeated, ..p.clone() },
            AttentionProblem { q: gaps, o: gaps, ..p.clone() },
            AttentionProblem { o: p.o, mask: Mask::CAUSAL, ..bhsd },
        ];
        for problem in problems {
            let case = Case::new(&bench.device, bench.what(), problem, 1.0);
            let plan = attention.plan(&case.problem).unwrap_or_else(|e| panic!("{e}"));
            case.check(&case.run(&bench.device, &plan));
        }
    });
}

/// A plan in a graph, and on two streams at the same time: the same bits.
#[test]
fn graphs_and_streams() -> Result<(), Error> {
    let Some(device) = gpu("graphs_and_streams") else { return Ok(()) };
    let attention = Attention::new(&device, &GEMM_IMAGE)?;
    let problem =
        AttentionProblem { mask: Mask::CAUSAL, ..bshd(Dtype::Bf16, [16, 4, 128], [2, 2048, 2048]) };
    let case = Case::new(&device, "graphs_and_streams", problem, 1.0);
    let plan = attention.plan(&case.problem)?;
    let right = case.run(&device, &plan);
    case.check(&right);

    let [q, k, v] = &case.inputs;
    let mut results = [case.results(&device), case.results(&device)];
    let streams = [device.new_stream()?, device.new_stream()?];
    let [one, other] = &mut results;
    let bound = [one, other].map(|[o, lse]| plan.bind(q, k, v, o, Some(ViewMut::from(lse))));
    for (bound, stream) in bound.iter().zip(&streams) {
        let bound = bound.as_ref().expect("operands of their own");
        let graph = stream.capture(|| (0..5).try_for_each(|_| bound.run(stream)))?;
        (0..5).try_for_each(|_| bound.run(stream))?;
        graph.launch()?;
        stream.synchronize()?;
    }
    for _ in 0..20 {
        for (bound, stream) in bound.iter().zip(&streams) {
            bound.as_ref().expect("operands of their own").run(stream)?;
        }
    }
    device.synchronize()?;
    drop(bound);
    for [o, lse] in results {
        assert!((o.to_vec()?, lse.to_vec()?) == right, "a graph or a stream gave other bits");
    }
    Ok(())
}
