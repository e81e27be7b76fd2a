//! A chain of one's own with the links `Amax` and `ScaleD`, on the SM model. The compiled kernels have `ScaledAmax` instead.

use gpu_kernels::gemm::Linear;
use gpu_kernels::gemm::fusion::{Chain, PerColBias, PerRowBias};
use gpu_kernels::gemm::quantised::{Amax, ScaleD};
use host::data::encode;
use host::gemm::{Gemm, GemmProblem};
use host::{Device, Dtype, SimConfig};
use isa::kernel::{Image, Kernel, KernelMeta};

/// What is compiled for this test.
mod table {
    use gpu_kernels::gemm::Linear;
    use gpu_kernels::gemm::fusion::{PerColBias, PerRowBias, Then};
    use gpu_kernels::gemm::quantised::{Amax, ScaleD};

    #[allow(non_camel_case_types)] // As PTX writes it.
    type e4m3 = float8::F8E4M3;
    type Biased<'a> = Then<Then<Linear, PerRowBias<'a, f32>>, PerColBias<'a, f32>>;

    gpu_kernels::gemm_kernels! {
        /// Two biases, the maximum, a scale.
        pub static KERNELS: Then<Then<Biased<'static>, Amax<'static>>, ScaleD<'static>>;
        amax_direct: e4m3 => e4m3, 64 x 64, cluster 1 x 1, Cooperative;
        amax_swapped: e4m3 => e4m3, 64 x 64, cluster 1 x 1, Cooperative, operands swapped;
    }
}

static METAS: [KernelMeta; 2] = [
    <table::amax_direct::amax_direct as Kernel>::DESC.meta,
    <table::amax_swapped::amax_swapped as Kernel>::DESC.meta,
];
static IMAGE: Image = Image {
    name: "amax_chain",
    arch: "sm_90a",
    code: &[],
    kernels: &METAS,
    ptxas: None,
    others: &[],
};

/// What a tile has behind D is as large as the biases, and has no part in the maximum. What it has in D is.
#[test]
fn biases_behind_d_are_not_in_the_maximum() -> Result<(), host::Error> {
    for [m, n] in [[72, 88], [128, 64], [40, 128]] {
        let (k, of_column) = (64, 3.0);
        let of_row = |row: usize| 60.0 + (row % 4) as f32;
        // -64 + 60 + 3 and up to three more.
        let result = |row: usize| of_row(row) + of_column - k as f32;
        let device = Device::sim(SimConfig { sms: 2, ..SimConfig::default() });
        let upload = |values: Vec<f32>, dtype| device.upload(&encode(&values, dtype)?);
        let a = upload(vec![1.0; m * k], Dtype::E4m3)?;
        let b = upload(vec![-1.0; n * k], Dtype::E4m3)?;
        let rows = upload((0..m).map(of_row).collect(), Dtype::F32)?;
        let columns = upload(vec![of_column; n], Dtype::F32)?;
        let scale = upload(vec![4.0], Dtype::F32)?;
        let gemm = Gemm::with_instances(&device, &IMAGE, table::KERNELS)?;
        let [wide_m, wide_n] = [m, n].map(|x| x as u64);
        let (ab, out) = (Dtype::E4m3, Dtype::E4m3);
        let problem = GemmProblem { m: wide_m, n: wide_n, k: k as u64, ab, out, beta_c: false };
        for index in 0..gemm.instances().len() {
            let plan = gemm.plan_with(&problem, index)?;
            let mut amax = upload(vec![0.0], Dtype::F32)?;
            let mut d = device.alloc(m * n)?;
            let epilogue = Linear { alpha: 1.0, beta: 0.0 }
                .then(PerRowBias { bias: rows.dependent_slice() })
                .then(PerColBias::new(columns.dependent_slice()))
                .then(Amax::new(amax.dependent_slice_mut(), [m as u32, n as u32]))
                .then(ScaleD { factor: 0.5, scale: scale.dependent_slice() });
            plan.run_with(&a, &b, None, &mut d, epilogue)?;
            let want: Vec<f32> = (0..m * n).map(|i| 2.0 * result(i / n)).collect();
            let name = gemm.instances()[index].desc.meta.name();
            assert!(d.to_vec()? == encode(&want, Dtype::E4m3)?, "{name}, {m} x {n}");
            let mut largest = [0; 4];
            amax.read(&mut largest)?;
            assert_eq!(largest, 2f32.to_ne_bytes(), "{name}, {m} x {n}");
        }
    }
    Ok(())
}
