//! What can't be measured on the SM model, and what holds there of a measurement's handles.

use host::gemm::GemmProblem;
use host::{Device, Dtype, SimConfig};
use warpipe_bench::cublaslt::CublasLt;
use warpipe_bench::epilogue::{CASES, EpilogueBench};
use warpipe_bench::grouped::{GroupedBench, SHAPES};
use warpipe_bench::{Bench, BenchConfig, Error, interleave};

fn line<T>(result: Result<T, Error>) -> String {
    let line = result.err().expect("must be refused").to_string();
    assert!(!line.is_empty() && !line.contains('\n'), "one line, got: {line}");
    line
}

#[test]
fn what_needs_a_gpu_says_so_on_the_model() {
    let device = Device::sim(SimConfig::default());
    assert_eq!(line(CublasLt::new(&device)), "cuBLASLt needs a GPU; this is the SM model");
    let problem =
        GemmProblem { m: 64, n: 64, k: 64, ab: Dtype::Bf16, out: Dtype::Bf16, beta_c: false };
    let refused = "a benchmark needs a GPU; this is the SM model";
    assert_eq!(line(Bench::new(&device, Dtype::Bf16, 0, &[problem])), refused);
    assert_eq!(line(GroupedBench::new(&device, 0, &SHAPES)), refused);
    assert_eq!(line(EpilogueBench::new(&device, Dtype::Bf16, 0, &CASES)), refused);
    assert_eq!(line(interleave(&device, &mut [], 0, 0.0, &BenchConfig::default())), refused);
}

#[test]
fn a_handle_can_be_sent_and_shared() {
    fn shared<T: Send + Sync>() {}
    shared::<CublasLt>();
    shared::<Error>();
}
