//! Runs D = gelu(A·Bᵀ + bias) on the GPU, or on the SM model if there is none, and compares it with f64.

use bias_gelu_kernels::{BiasGelu, CHAINED, KERNELS};
use gpu_kernels::gemm::Linear;
use gpu_kernels::gemm::fusion::{Chain, GeluTanh, PerColBias};
use host::gemm::{Gemm, GemmProblem};
use host::{Device, Dtype, Error, data};

static IMAGE: isa::kernel::Image = isa::kernel_image!("bias_gelu_kernels");

/// Which kernel computes the product.
#[derive(Clone, Copy, Debug)]
enum By {
    /// The one of `KERNELS` that the picker chooses.
    Picker,
    /// One of `KERNELS`, with the epilogue of this project.
    Own(usize),
    /// One of `CHAINED`, with an epilogue of warpipe's links.
    Chain(usize),
}

/// Plans the product, runs it, and returns the largest error.
fn run(device: &Device, [m, n, k]: [usize; 3], by: By) -> Result<f64, Error> {
    let problem = GemmProblem {
        m: m as u64,
        n: n as u64,
        k: k as u64,
        ab: Dtype::Bf16,
        out: Dtype::Bf16,
        beta_c: false,
    };
    let a = data::rounded(&data::normal(1, m * k), Dtype::Bf16)?;
    let b = data::rounded(&data::normal(2, n * k), Dtype::Bf16)?;
    let bias = data::normal(3, n);
    let bytes: Vec<u8> = bias.iter().flat_map(|x| x.to_le_bytes()).collect();
    let on_device = |values: &[f32]| device.upload(&data::encode(values, Dtype::Bf16)?);
    let (da, db, dbias) = (on_device(&a)?, on_device(&b)?, device.upload(&bytes)?);
    let mut d = device.alloc(2 * m * n)?;
    if let By::Chain(index) = by {
        let gemm = Gemm::with_instances(device, &IMAGE, CHAINED)?;
        let plan = gemm.plan_with(&problem, index)?;
        let epilogue = Linear { alpha: 1.0, beta: 0.0 }
            .then(PerColBias::new(dbias.dependent_slice()))
            .activated::<GeluTanh>();
        plan.run_with(&da, &db, None, &mut d, epilogue)?;
    } else {
        let gemm = Gemm::with_instances(device, &IMAGE, KERNELS)?;
        let plan = match by {
            By::Own(index) => gemm.plan_with(&problem, index)?,
            _ => gemm.plan(&problem)?,
        };
        print!("{}", plan.describe());
        plan.run_with(&da, &db, None, &mut d, BiasGelu { bias: dbias.dependent_slice() })?;
    }

    let d = data::decode(&d.to_vec()?, Dtype::Bf16)?;
    let mut worst: f64 = 0.0;
    for (i, &have) in d.iter().enumerate() {
        let (row, col) = (i / n, i % n);
        let product = |x: usize| f64::from(a[row * k + x]) * f64::from(b[col * k + x]);
        let x = (0..k).map(product).sum::<f64>() + f64::from(bias[col]);
        let want = 0.5 * x * (1.0 + (0.797_884_560_8 * (x + 0.044_715 * x.powi(3))).tanh());
        worst = worst.max((f64::from(have) - want).abs() / (1.0 + want.abs()));
    }
    Ok(worst)
}

fn main() -> Result<(), Error> {
    let device = Device::auto();
    for by in [By::Picker, By::Own(1), By::Chain(1)] {
        let error = run(&device, [300, 520, 200], by)?;
        println!("{}, {by:?}: largest error {error:.1e}", device.describe());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::SimConfig;

    /// The picker's kernel and each of the six, with residues in every dimension.
    #[test]
    fn every_kernel_is_right_on_the_model() {
        let device = Device::sim(SimConfig { sms: 8, ..SimConfig::default() });
        let own = (0..KERNELS.len()).map(By::Own);
        let all = own.chain((0..CHAINED.len()).map(By::Chain)).chain([By::Picker]);
        for by in all {
            for shape in [[300, 520, 200], [40, 72, 264], [1, 8, 8]] {
                let error = run(&device, shape, by).unwrap_or_else(|e| panic!("{shape:?}: {e}"));
                assert!(error < 5e-3, "{shape:?}, {by:?}: {error}");
            }
        }
    }

    #[test]
    fn the_image_has_the_kernels_of_its_crate_alone() {
        let mut names: Vec<_> = IMAGE.kernels.iter().map(|kernel| kernel.name()).collect();
        names.sort_unstable();
        assert_eq!(
            names,
            [
                "bias_gelu_128x128",
                "bias_gelu_128x256",
                "bias_gelu_16x64t",
                "bias_gelu_64x64",
                "chain_128x128",
                "chain_128x256"
            ]
        );
    }
}
