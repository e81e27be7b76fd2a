//! Runs D = gelu(A·Bᵀ + bias) on the GPU, or on the SM model if there is none, and compares it with f64.

use bias_gelu_kernels::{BiasGelu, KERNELS};
use host::gemm::{Gemm, GemmProblem};
use host::{Device, Dtype, Error, data};

static IMAGE: isa::kernel::Image = isa::kernel_image!("bias_gelu_kernels");

/// Plans the product, with the picker or with kernel `index`, runs it, and returns the largest error.
fn run(device: &Device, [m, n, k]: [usize; 3], index: Option<usize>) -> Result<f64, Error> {
    let gemm = Gemm::with_instances(device, &IMAGE, KERNELS)?;
    let problem = GemmProblem {
        m: m as u64,
        n: n as u64,
        k: k as u64,
        ab: Dtype::Bf16,
        out: Dtype::Bf16,
        beta_c: false,
    };
    let plan = match index {
        Some(index) => gemm.plan_with(&problem, index)?,
        None => gemm.plan(&problem)?,
    };
    print!("{}", plan.describe());

    let a = data::rounded(&data::normal(1, m * k), Dtype::Bf16)?;
    let b = data::rounded(&data::normal(2, n * k), Dtype::Bf16)?;
    let bias = data::normal(3, n);
    let bytes: Vec<u8> = bias.iter().flat_map(|x| x.to_le_bytes()).collect();
    let on_device = |values: &[f32]| device.upload(&data::encode(values, Dtype::Bf16)?);
    let (da, db, dbias) = (on_device(&a)?, on_device(&b)?, device.upload(&bytes)?);
    let mut d = device.alloc(2 * m * n)?;
    plan.run_with(&da, &db, None, &mut d, BiasGelu { bias: dbias.dependent_slice() })?;

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
    let error = run(&device, [300, 520, 200], None)?;
    println!("{}: largest error {error:.1e}", device.describe());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::SimConfig;

    /// The picker's kernel and each of the four, with residues in every dimension.
    #[test]
    fn every_kernel_is_right_on_the_model() {
        let device = Device::sim(SimConfig { sms: 8, ..SimConfig::default() });
        for shape in [[300, 520, 200], [40, 72, 264], [1, 8, 8]] {
            for index in [None, Some(0), Some(1), Some(2), Some(3)] {
                let error = run(&device, shape, index).unwrap_or_else(|e| panic!("{shape:?}: {e}"));
                assert!(error < 5e-3, "{shape:?}, kernel {index:?}: {error}");
            }
        }
    }

    #[test]
    fn the_image_has_the_kernels_of_its_crate_alone() {
        let mut names: Vec<_> = IMAGE.kernels.iter().map(|kernel| kernel.name()).collect();
        names.sort_unstable();
        assert_eq!(
            names,
            ["bias_gelu_128x128", "bias_gelu_128x256", "bias_gelu_16x64t", "bias_gelu_64x64"]
        );
    }
}
