//! Compares the GEMM with the f64 product, for shapes that reach every residue, and a second run
//! with the first, bit by bit.
//!
//! ```text
//! gemm_check sim                           on the SM model
//! gemm_check warpipe_gpu_kernels.ptx               on GPU 0, with the kernels of that file
//! gemm_check warpipe_gpu_kernels.ptx 8192 8192 8192 [more M N K ...]
//! ```
//! Every instance of the table runs every shape in every schedule that is worth trying, with alpha = 0.5 and beta = -2 where it reads C.
//! The exit status is 1 if any result is off.

extern crate warpipe_host as host;

mod common;

use gpu_kernels::gemm::Instance;
use host::data::{decode, encode, normal, rounded};
use host::gemm::{Gemm, GemmProblem, Schedule};
use host::reference::Product;
use host::{Device, Dtype, SimConfig};
use std::error::Error;
use std::process::ExitCode;

const SHAPES: [u64; 24] = [
    1, 1, 1, 129, 257, 65, 300, 520, 72, 7, 1000, 333, 512, 512, 512, 64, 64, 0, 128, 256, 4096,
    200, 8, 136,
];

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: gemm_check sim|FILE.ptx [M N K ...]")?;
    let sizes = args.map(|a| a.parse::<u64>()).collect::<Result<Vec<_>, _>>()?;
    let sizes = if sizes.is_empty() { SHAPES.to_vec() } else { sizes };
    let (device, image) = match path.as_str() {
        "sim" => (Device::sim(SimConfig::default()), common::image("")?),
        path => (Device::cuda(0)?, common::image(path)?),
    };
    println!("{}", device.describe());
    let gemm = Gemm::new(&device, image)?;
    let mut wrong = 0;
    for size in sizes.chunks_exact(3) {
        for (index, instance) in gemm.instances().iter().enumerate() {
            let problem = GemmProblem {
                m: size[0],
                n: size[1],
                k: size[2],
                ab: instance.ab,
                out: instance.out,
                beta_c: instance.has_c,
            };
            for (_, schedule) in gemm.schedules(&problem, index)? {
                wrong += u32::from(!check(&device, &gemm, (index, instance), &problem, schedule)?);
            }
        }
    }
    println!("{wrong} wrong");
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs one instance on one shape; whether it is right.
fn check(
    device: &Device,
    gemm: &Gemm,
    (index, instance): (usize, &Instance),
    problem: &GemmProblem,
    schedule: Schedule,
) -> Result<bool, Box<dyn Error>> {
    let GemmProblem { ab, out, .. } = *problem;
    let (m, n, k) = (problem.m as usize, problem.n as usize, problem.k as usize);
    let a = rounded(&normal(1, m * k), ab)?;
    let b = rounded(&normal(2, n * k), ab)?;
    let c = rounded(&normal(3, m * n), out)?;
    let up = |values: &[f32], dtype| device.upload(&encode(values, dtype)?);
    let (da, db) = (up(&a, ab)?, up(&b, ab)?);
    let dc = if problem.beta_c { Some(up(&c, out)?) } else { None };
    let (alpha, beta) = if problem.beta_c { (0.5, -2.0) } else { (1.0, 0.0) };

    let plan = gemm.plan_scheduled(problem, index, schedule)?;
    let mut results = Vec::new();
    for _ in 0..2 {
        let mut d = device.alloc(problem.bytes('D') as usize)?;
        d.fill(0xff)?;
        plan.run(&da, &db, dc.as_ref(), &mut d, alpha, beta)?;
        results.push(d.to_vec()?);
    }
    let product = Product { m, n, k, a: &a, b: &b, c: Some(&c), alpha, beta };
    let check = product.check(&decode(&results[0], out)?)?;
    let bound = match out {
        // The tensor core truncates each partial sum: the error grows with their number.
        Dtype::F32 => 1e-6 * (k as f64 / 512.0).max(1.0),
        Dtype::F16 => 6e-4,
        _ => 4e-3,
    };
    let (right, same) = (check.below(bound), results[0] == results[1]);
    println!(
        "{:5} x {:5} x {:5}  {:32} {:3} {:3}  {check}{}{}",
        m,
        n,
        k,
        instance.desc.meta.name(),
        schedule.clusters,
        schedule.streamed,
        if right { "" } else { "  WRONG" },
        if same { "" } else { "  DIFFERS FROM RUN TO RUN" },
    );
    Ok(right && same)
}
