//! The GEMM as a case.

use super::{Args, Case, Failure};
use crate::cli::check::Judged;
use crate::cli::error::Error;
use crate::cli::operands::{Generate, Operands};
use host::gemm::{Gemm, GemmProblem};
use host::sim::Stats;
use host::{Device, SimConfig};

use std::sync::OnceLock;

/// A shape with parts of tiles in all three dimensions.
const SHAPE: [u64; 3] = [300, 520, 200];

struct GemmCase {
    kernel: String,
    index: usize,
    operands: Operands,
    alpha: f32,
    beta: f32,
    /// A result that was compared with the f64 product: another one with the same bits is right.
    good: OnceLock<Vec<u8>>,
}

/// The cases that the options name.
pub fn cases(args: &Args) -> Result<Vec<Box<dyn Case>>, Error> {
    let device = Device::sim(SimConfig::default());
    let gemm = Gemm::new(&device, &warpipe::GEMM_IMAGE)?;
    let names = || gemm.instances().iter().map(|i| i.desc.meta.name());
    let given = args.m.zip(args.n).zip(args.k).map(|((m, n), k)| [m, n, k]);
    let chosen: Vec<usize> = if args.all_instances {
        (0..gemm.instances().len()).collect()
    } else if let Some(name) = &args.instance {
        let Some(index) = names().position(|n| n == name) else {
            let have: Vec<_> = names().collect();
            return Err(Error::Usage(format!(
                "no instance {name}; there are: {}",
                have.join(", ")
            )));
        };
        vec![index]
    } else {
        let [m, n, k] = given.unwrap_or(SHAPE);
        let out = args.out_dtype.unwrap_or(args.dtype);
        let problem = GemmProblem { m, n, k, ab: args.dtype, out, beta_c: args.beta.is_some() };
        let plan = gemm.plan(&problem)?;
        let Some(kernel) = &plan.describe().kernel else {
            let usage = format!("{m} x {n} x {k}: D is empty, and no kernel runs");
            return Err(Error::Usage(usage));
        };
        vec![kernel.index]
    };
    let case = |index: usize| -> Result<Box<dyn Case>, Error> {
        let instance = &gemm.instances()[index];
        // One tile and a part of one in each dimension, and a last stage that is not full.
        let reach = [
            u64::from(instance.bm * instance.cluster_m + 8),
            u64::from(instance.bn * instance.cluster_n + 8),
            u64::from(instance.bk * 2 + 8),
        ];
        let [m, n, k] = given.unwrap_or(if args.all_instances { reach } else { SHAPE });
        let problem =
            GemmProblem { m, n, k, ab: instance.ab, out: instance.out, beta_c: instance.has_c };
        if m == 0 || n == 0 {
            let usage = format!("{m} x {n} x {k}: D is empty, and no kernel runs");
            return Err(Error::Usage(usage));
        }
        Ok(Box::new(GemmCase {
            kernel: instance.desc.meta.name().to_owned(),
            index,
            operands: Operands::generate(Generate { problem, seed: 0 })?,
            alpha: 1.5,
            beta: if instance.has_c { args.beta.unwrap_or(-2.0) } else { 0.0 },
            good: OnceLock::new(),
        }))
    };
    chosen.into_iter().map(case).collect()
}

impl Case for GemmCase {
    fn name(&self) -> String {
        let GemmProblem { m, n, k, .. } = self.operands.problem;
        format!("{} {m}x{n}x{k}", self.kernel)
    }

    fn run(&self, config: &SimConfig) -> Result<Stats, Failure> {
        let problem = self.operands.problem;
        let device = Device::sim(config.clone());
        let plan = Gemm::new(&device, &warpipe::GEMM_IMAGE)?.plan_with(&problem, self.index)?;
        let a = device.upload(&self.operands.a.data)?;
        let b = device.upload(&self.operands.b.data)?;
        let c = self.operands.c.as_ref().map(|c| device.upload(&c.data)).transpose()?;
        let mut d = device.alloc(problem.bytes('D') as usize)?;
        // NaN in every type: an element that is not written shows.
        d.fill(0xff)?;
        plan.run(&a, &b, c.as_ref(), &mut d, self.alpha, self.beta)?;
        let d = d.to_vec()?;
        if self.good.get() != Some(&d) {
            let judged = Judged::new(&self.operands, self.alpha, self.beta, &d)?;
            if !judged.passed {
                let Judged { check, bound, .. } = judged;
                return Err(Failure::Other(format!(
                    "{}: a wrong result: {check}, bound {bound:.0e}",
                    self.name()
                )));
            }
            // Another schedule may have come first; both are good.
            let _ = self.good.set(d);
        }
        Ok(device.model_stats().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isa::kernel::Dtype;

    #[test]
    fn a_case_runs_and_counts() {
        let problem =
            GemmProblem { m: 8, n: 16, k: 24, ab: Dtype::Bf16, out: Dtype::Bf16, beta_c: false };
        let device = Device::sim(SimConfig::default());
        let plan = Gemm::new(&device, &warpipe::GEMM_IMAGE).unwrap().plan(&problem).unwrap();
        let kernel = plan.describe().kernel.clone().unwrap();
        let case = GemmCase {
            kernel: kernel.name,
            index: kernel.index,
            operands: Operands::generate(Generate { problem, seed: 1 }).unwrap(),
            alpha: 1.0,
            beta: 0.0,
            good: OnceLock::new(),
        };
        let stats = case.run(&SimConfig::default()).unwrap_or_else(|e| panic!("{e}"));
        assert!(stats.wgmmas > 0 && case.good.get().is_some());
        assert!(case.name().ends_with(" 8x16x24"));
    }
}
