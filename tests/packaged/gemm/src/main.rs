//! A product on the model of the SM. With the argument `f16`, one that no kernel of the default features computes; with
//! `image`, none.

use std::hash::{DefaultHasher, Hash, Hasher};
use warpipe::host::gemm::{Gemm, GemmProblem};
use warpipe::host::{Device, Dtype, Error, SimConfig, data};

fn product(ab: Dtype) -> Result<(), Error> {
    let (m, n, k) = (128, 128, 128);
    let device = Device::sim(SimConfig::default());
    let problem = GemmProblem { m, n, k, ab, out: ab, beta_c: false };
    let plan = Gemm::new(&device, &warpipe::GEMM_IMAGE)?.plan(&problem)?;
    let a = device.upload(&data::encode(&vec![1.0; (m * k) as usize], ab)?)?;
    let b = device.upload(&data::encode(&vec![0.5; (n * k) as usize], ab)?)?;
    let mut d = device.alloc((m * n * 2) as usize)?;
    plan.run(&a, &b, None, &mut d, 1.0, 0.0)?;
    println!("on {}: d[0][0] = {}", device.describe(), data::decode(&d.to_vec()?, ab)?[0]);
    Ok(())
}

fn main() {
    let dtype = match std::env::args().nth(1).as_deref() {
        Some("image") => None,
        Some("f16") => Some(Dtype::F16),
        _ => Some(Dtype::Bf16),
    };
    if let Some(Err(error)) = dtype.map(product) {
        eprintln!("{error}");
        std::process::exit(1);
    }
    // Of all code and metadata, to compare images.
    let image = warpipe::GEMM_IMAGE;
    let mut hasher = DefaultHasher::new();
    for kernel in image.kernels {
        let ptx = image.ptx(kernel.name()).expect("a kernel has code");
        (kernel.name(), ptx, format!("{kernel:?}")).hash(&mut hasher);
    }
    println!("image: {} kernels, {:016x}", image.kernels.len(), hasher.finish());
}
