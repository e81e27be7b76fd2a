//! The typed GEMM and its raw twin, as the host launches them.

use warpipe::gpu_kernels::gemm::instance::Instances;
use warpipe::gpu_kernels::gemm::{INSTANCES, Instance, KernelSchedule, Linear};
use warpipe::host::gemm::{Gemm, GemmPlan, GemmProblem, Schedule};
use warpipe::host::{Device, Dtype, Error};
use warpipe::isa::kernel::Kernel;

/// The typed kernel.
pub const TYPED: &str = "gemm_bf16_bf16_128x256_2x1";

/// The raw kernel: all facts but the name are those of the typed one.
static RAW_TABLE: Instances<Linear> = Instances::of(&[Instance {
    desc: &<raw_gemm::raw_gemm_bf16_bf16_128x256_2x1 as Kernel>::DESC,
    bm: 128,
    bn: 256,
    bk: 64,
    stages: 4,
    stage_bytes: (128 + 256) * 128,
    groups: 2,
    splits_k: false,
    kernel_schedule: KernelSchedule::SplitN,
    cluster_m: 2,
    cluster_n: 1,
    a_mn_major: false,
    b_mn_major: false,
    batched: false,
    ab: Dtype::Bf16,
    b: Dtype::Bf16,
    out: Dtype::Bf16,
    promotes: false,
    scale_granularity: None,
    has_c: false,
    swap_ab: false,
    gated: false,
    activates: false,
}]);

/// M x N x K of what both compute.
pub fn problem(m: u64, n: u64, k: u64) -> GemmProblem {
    GemmProblem { m, n, k, ab: Dtype::Bf16, out: Dtype::Bf16, beta_c: false }
}

/// Plans of the typed and of the raw kernel, which can't share tiles: so neither does.
pub fn plans(device: &Device, problem: &GemmProblem) -> Result<[GemmPlan; 2], Error> {
    let typed = Gemm::new(device, &warpipe::GEMM_IMAGE)?;
    let raw = Gemm::with_instances(device, &raw_gemm_image::IMAGE, RAW_TABLE)?;
    let index = INSTANCES.iter().position(|instance| instance.desc.meta.name() == TYPED);
    let index = index.expect("the typed kernel is in the table");
    let tiles = problem.m.div_ceil(256) * problem.n.div_ceil(256);
    let schedule =
        Schedule { clusters: tiles.min(u64::from(device.sms() / 2)) as u32, streamed: 0 };
    Ok([typed.plan_scheduled(problem, index, schedule)?, raw.plan(problem)?])
}
