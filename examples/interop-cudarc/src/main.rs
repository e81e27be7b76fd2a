//! A program that works with cudarc, and multiplies two matrices with warpipe on its own stream and memory:
//!
//! ```text
//! cargo run --release -p interop-cudarc
//! ```

use cudarc::driver::CudaContext;
use half::bf16;
use std::error::Error;
use warpipe::host::gemm::{Gemm, GemmProblem};
use warpipe::host::{Device, Dtype, Stream, View, ViewMut, data};

fn main() -> Result<(), Box<dyn Error>> {
    if let Err(missing) = Device::cuda(0) {
        println!("this example needs a Hopper GPU: {missing}");
        return Ok(());
    }
    let bits = multiply()?;
    println!("the same {} bytes as on warpipe's own stream and memory", bits.len());
    Ok(())
}

/// Multiplies on cudarc's memory and on warpipe's, and returns the result, which must be the same.
fn multiply() -> Result<Vec<u8>, Box<dyn Error>> {
    let (m, n, k) = (512, 768, 1024);
    let values = |seed, count| -> Vec<bf16> {
        data::normal(seed, count).into_iter().map(bf16::from_f32).collect()
    };

    // The program as it is: its context, its stream, its memory.
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    let a = stream.clone_htod(&values(1, m * k))?;
    let b = stream.clone_htod(&values(2, n * k))?;
    let mut d = stream.alloc_zeros::<bf16>(m * n)?;

    // What warpipe needs: a device in that context, and a plan.
    let device = Device::from_cudarc(&context)?;
    let (m_, n_, k_) = (m as u64, n as u64, k as u64);
    let ab = Dtype::Bf16;
    let problem = GemmProblem { m: m_, n: n_, k: k_, ab, out: ab, beta_c: false };
    let plan = Gemm::new(&device, &warpipe::GEMM_IMAGE)?.plan(&problem)?;
    {
        let view_a = View::from_cudarc(&device, &a, &stream)?;
        let view_b = View::from_cudarc(&device, &b, &stream)?;
        let view_d = ViewMut::from_cudarc(&device, &mut d, &stream)?;
        let product = plan.bind(view_a, view_b, None, view_d)?;
        product.run(1.0, 0.0, &Stream::from_cudarc(&device, &stream)?)?;
    }
    let theirs: Vec<u8> = stream.clone_dtoh(&d)?.iter().flat_map(|x| x.to_le_bytes()).collect();

    let device = Device::cuda(0)?;
    let plan = Gemm::new(&device, &warpipe::GEMM_IMAGE)?.plan(&problem)?;
    let upload = |seed, count| device.upload(&data::encode(&data::normal(seed, count), ab)?);
    let mut d = device.alloc(2 * m * n)?;
    plan.run(&upload(1, m * k)?, &upload(2, n * k)?, None, &mut d, 1.0, 0.0)?;
    let ours = d.to_vec()?;
    if theirs == ours { Ok(ours) } else { Err("the results differ".into()) }
}

#[cfg(test)]
#[path = "../../../host/tests/common/gpu.rs"]
mod gpu;

#[cfg(test)]
mod tests {
    #[test]
    fn both_give_the_same_bits() {
        let Some(_device) = crate::gpu::gpu("both_give_the_same_bits") else { return };
        assert_eq!(super::multiply().unwrap().len(), 2 * 512 * 768);
    }
}
