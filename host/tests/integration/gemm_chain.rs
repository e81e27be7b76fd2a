//! GEMMs in a row on the SM model, without a wait of the host in between. All kernels of the GEMM are dependent
//! launches, so each may overlap the one ahead, whose result it reads and whose workspace it shares.

use host::gemm::{Gemm, GemmProblem};
use host::{Device, Dtype, SimConfig, data};
use isa::kernel::{Image, Kernel, KernelMeta};

/// What is compiled for this test.
mod table {
    use gpu_kernels::gemm::Linear;
    use half::bf16;

    gpu_kernels::gemm_kernels! {
        /// A kernel that splits tiles.
        pub static KERNELS: Linear;
        in_a_row: bf16 => bf16, 128 x 128, cluster 1 x 1, Cooperative;
    }
}

static METAS: [KernelMeta; 1] = [<table::in_a_row::in_a_row as Kernel>::DESC.meta];
static IMAGE: Image = Image {
    name: "in_a_row",
    arch: "sm_90a",
    code: &[],
    kernels: &METAS,
    ptxas: None,
    others: &[],
};

const LAYERS: usize = 4;

/// `x * w` four times over, and the number of clusters that ran; the host waits in between, or not.
fn layers(seed: u64, waits: bool) -> Result<(Vec<u8>, u64), host::Error> {
    let device = Device::sim(SimConfig { sms: 3, seed, ..SimConfig::default() });
    let gemm = Gemm::with_instances(&device, &IMAGE, table::KERNELS)?;
    let (rows, width) = (128, 256);
    let dtype = Dtype::Bf16;
    let problem = GemmProblem { m: rows, n: width, k: width, ab: dtype, out: dtype, beta_c: false };
    // Two tiles, shared by as many CTAs as can be.
    let schedules = gemm.schedules(&problem, 0)?;
    let (_, schedule) = *schedules.last().expect("a schedule");
    assert!(schedule.streamed > 0, "{schedules:?}");
    let plan = gemm.plan_scheduled(&problem, 0, schedule)?;
    let values = |seed, count: u64| data::encode(&data::normal(seed, count as usize), dtype);
    let w = device.upload(&values(1, width * width)?)?;
    let mut x = [device.upload(&values(2, rows * width)?)?, device.alloc(2 * 128 * 256)?];
    for _ in 0..LAYERS {
        let [from, to] = &mut x;
        plan.run(from, &w, None, to, 1.0 / 16.0, 0.0)?;
        if waits {
            device.synchronize()?;
        }
        x.swap(0, 1);
    }
    Ok((x[0].to_vec()?, device.model_stats().expect("a model").clusters))
}

#[test]
fn layers_in_a_row_are_those_one_by_one() -> Result<(), host::Error> {
    let right = layers(0, true)?;
    assert!(data::decode(&right.0, Dtype::Bf16)?.iter().any(|&v| v > 0.5), "all is small");
    for seed in 0..8 {
        assert!(layers(seed, false)? == right, "seed {seed}");
    }
    Ok(())
}
