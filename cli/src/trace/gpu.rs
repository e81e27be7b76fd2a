//! Runs a product on a GPU with a kernel that records what its warps do.

use super::records;
use crate::check::Judged;
use crate::error::Error;
use crate::operands::{Generate, Operands};
use crate::schedules::{Case, gemm};
use gpu_kernels::gemm::instance::Instances;
use gpu_kernels::gemm::{INSTANCES, Linear};
use host::gemm::{Gemm, GemmProblem};
use host::sim::Schedule;
use host::sim::trace::{Trace, Tracing};
use host::{Device, SimConfig};
use isa::kernel::{Dtype, Image};
use isa::trace::{CTAS, VARIABLE};
use std::sync::Arc;

/// The kernels of a build with the feature `trace`. The first one is the default.
pub const KERNELS: [&str; 2] = ["gemm_bf16_bf16_128x256_2x1", "gemm_bf16_bf16_128x128_1x1_pp"];
/// Default shape: several tiles for each CTA of an H100.
pub const SHAPE: [u64; 3] = [4096, 4096, 512];
/// Shape of the model's run that names the barriers: several tiles for each CTA, and more k tiles than
/// slots.
const SMALL: [u64; 3] = [256, 512, 512];

#[cfg(feature = "trace")]
const IMAGE: Option<&Image> = Some(&warpipe::TRACED_IMAGE);
#[cfg(not(feature = "trace"))]
const IMAGE: Option<&Image> = None;

/// The image with recording kernels, if this build has it.
pub fn image() -> Result<&'static Image, Error> {
    IMAGE.ok_or_else(|| {
        let usage = "this build has no kernels that record on a GPU; build with \
                     `cargo build --release --features trace`, or trace the model with --device sim";
        Error::Usage(usage.to_owned())
    })
}

/// Finds a kernel by its name, or by the part of its name after an underscore.
pub fn kernel(asked: Option<&str>) -> Result<&'static str, Error> {
    let Some(asked) = asked else { return Ok(KERNELS[0]) };
    let end = format!("_{asked}");
    let found = KERNELS.into_iter().find(|name| *name == asked || name.ends_with(&end));
    found.ok_or_else(|| {
        let names = KERNELS.join(" and ");
        Error::Usage(format!("cannot trace {asked} on a GPU; only {names} can be traced"))
    })
}

fn problem([m, n, k]: [u64; 3]) -> GemmProblem {
    GemmProblem { m, n, k, ab: Dtype::Bf16, out: Dtype::Bf16, beta_c: false }
}

/// Runs a product twice with one of [`KERNELS`], records cluster `cluster` in the second run, and checks
/// the result. Returns the trace in nanoseconds and its title.
pub fn run(
    device: &Device,
    kernel: &str,
    shape: [u64; 3],
    cluster: u32,
) -> Result<(Trace, String), Error> {
    let image = image()?;
    let index = INSTANCES.iter().position(|i| i.desc.meta.name() == kernel);
    let index = index.expect("the table has the kernel");
    let table = Instances::<Linear>::of(&INSTANCES.rows[index..=index]);
    let desc = table[0].desc;
    let gemm = Gemm::with_instances(device, image, table)?;
    let problem = problem(shape);
    let plan = gemm.plan(&problem)?;
    let Some(launch) = plan.describe().kernel.clone() else {
        let [m, n, k] = shape;
        return Err(Error::Usage(format!("{m} x {n} x {k}: D is empty, and no kernel runs")));
    };
    let clusters = launch.ctas / desc.meta.cluster_size();
    if cluster >= clusters {
        return Err(Error::Usage(format!(
            "there is no cluster {cluster} in the grid of {kernel}: it has {clusters}"
        )));
    }
    let operands = Operands::generate(Generate { problem, seed: 0 })?;
    let a = device.upload(&operands.a.data)?;
    let b = device.upload(&operands.b.data)?;
    let mut d = device.alloc(problem.bytes('D') as usize)?;
    d.fill(0xff)?;
    // The first run assembles, and fills the caches.
    for _ in 0..2 {
        device.synchronize()?;
        gemm.module().write_variable(desc, VARIABLE, &cluster.to_le_bytes())?;
        plan.run(&a, &b, None, &mut d, 1.0, 0.0)?;
        device.synchronize()?;
    }
    let bytes = gemm.module().read_variable(desc, VARIABLE)?;
    let trace = records::decode(&bytes, cluster, &model(kernel)?)?;
    Judged::new(&operands, 1.0, 0.0, &d.to_vec()?)?.verdict(problem.out, problem.k)?;
    let [m, n, k] = shape;
    let title =
        format!("{kernel} {m}x{n}x{k}, cluster {cluster} of {clusters} on {}", device.describe());
    Ok((trace, title))
}

/// A trace of the same kernel on the model, which has the names of barriers and roles.
pub fn model(kernel: &str) -> Result<Trace, Error> {
    let case = gemm::case(2, problem(SMALL), Some(kernel), 0.0)?;
    let tracing = Arc::new(Tracing::new(0, super::EVENTS));
    let config = SimConfig {
        sms: 2,
        schedule: Schedule::timed(),
        trace: Some(Arc::clone(&tracing)),
        ..SimConfig::default()
    };
    run_model(case.as_ref(), &config)?;
    let trace = tracing.take().pop();
    Ok(trace.expect("a completed run has the trace of its first cluster"))
}

fn run_model(case: &dyn Case, config: &SimConfig) -> Result<(), Error> {
    case.run(config).map(drop).map_err(Error::from)
}

// All CTAs of the kernels' clusters are recorded.
const _: () = assert!(CTAS >= 2, "a kernel's clusters have two CTAs");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_found_by_the_end_of_their_names() {
        assert_eq!(kernel(None).unwrap(), KERNELS[0]);
        assert_eq!(kernel(Some("128x256_2x1")).unwrap(), KERNELS[0]);
        assert_eq!(kernel(Some("128x128_1x1_pp")).unwrap(), KERNELS[1]);
        assert_eq!(kernel(Some(KERNELS[1])).unwrap(), KERNELS[1]);
        for absent in ["gemm_bf16_bf16_128x128_1x1", "1x256_2x1", ""] {
            let said = kernel(Some(absent)).unwrap_err().to_string();
            assert!(KERNELS.iter().all(|name| said.contains(name)), "{said}");
        }
    }

    #[cfg(feature = "trace")]
    #[test]
    fn the_image_has_the_kernels_that_are_offered() {
        let have = warpipe::TRACED_IMAGE.kernels.iter().map(isa::kernel::KernelMeta::name);
        let have: std::collections::BTreeSet<_> = have.collect();
        assert_eq!(have, KERNELS.into_iter().collect());
    }
}
