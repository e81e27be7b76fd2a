//! A product with the kernels that warpipe brings.

// example: product
use warpipe::host::gemm::{Gemm, GemmProblem};
use warpipe::host::{Device, Dtype, Error, data};

/// D = A·Bᵀ in bf16: A is m x k, B is n x k, both row by row.
pub fn product(
    device: &Device,
    [m, n, k]: [usize; 3],
    a: &[f32],
    b: &[f32],
) -> Result<Vec<f32>, Error> {
    let problem = GemmProblem {
        m: m as u64,
        n: n as u64,
        k: k as u64,
        ab: Dtype::Bf16,
        out: Dtype::Bf16,
        beta_c: false,
    };
    let plan = Gemm::new(device, &warpipe::GEMM_IMAGE)?.plan(&problem)?;
    let a = device.upload(&data::encode(a, Dtype::Bf16)?)?;
    let b = device.upload(&data::encode(b, Dtype::Bf16)?)?;
    let mut d = device.alloc(2 * m * n)?;
    plan.run(&a, &b, None, &mut d, 1.0, 0.0)?;
    data::decode(&d.to_vec()?, Dtype::Bf16)
}
// end
