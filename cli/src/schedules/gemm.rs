//! The GEMM kernels as cases.

use super::family::Family;
use super::{Args, Case, Failure, Steps};
use crate::check::Judged;
use crate::error::Error;
use crate::instance;
use crate::operands::{Generate, Operands};
use host::gemm::{Gemm, GemmProblem, Schedule};
use host::sim::{Stats, Trial};
use host::{Device, SimConfig};
use warpipe::gpu_kernels::gemm::Instance;

use std::sync::{Arc, OnceLock};

/// A shape with partial tiles in all three dimensions.
const SHAPE: [u64; 3] = [300, 520, 200];

struct GemmCase {
    kernel: String,
    index: usize,
    /// The schedule of the kernel.
    schedule: Schedule,
    operands: Arc<Operands>,
    alpha: f32,
    beta: f32,
    /// A result that matched the f64 product. Later results with the same bits need no comparison.
    good: OnceLock<Vec<u8>>,
}

/// The cases that the options name.
pub fn cases(args: &Args) -> Result<Vec<Box<dyn Case>>, Error> {
    let device = Device::sim(SimConfig::default());
    let gemm = Gemm::new(&device, &warpipe::GEMM_IMAGE)?;
    let given = args.m.zip(args.n).zip(args.k).map(|((m, n), k)| [m, n, k]);
    let chosen = chosen(args, &gemm, given.unwrap_or(SHAPE))?;
    let mut cases: Vec<Box<dyn Case>> = Vec::new();
    for index in chosen {
        let instance = &gemm.instances()[index];
        // One tile and a part of one in each dimension; k tiles for two CTAs, the last one partial.
        let reach = [
            u64::from(instance.bm * instance.cluster_m + 8),
            u64::from(instance.bn * instance.cluster_n + 8),
            u64::from(instance.bk * 3 + 8),
        ];
        let [m, n, k] = given.unwrap_or(if args.all_instances { reach } else { SHAPE });
        let problem =
            GemmProblem { m, n, k, ab: instance.ab, out: instance.out, beta_c: instance.has_c };
        if m == 0 || n == 0 {
            return Err(empty([m, n, k]));
        }
        let operands = Arc::new(Operands::generate(Generate { problem, seed: 0 })?);
        for schedule in schedules(&gemm, &problem, index, args.schedule)? {
            cases.push(Box::new(GemmCase {
                kernel: instance.desc.meta.name().to_owned(),
                index,
                schedule,
                operands: Arc::clone(&operands),
                alpha: 1.5,
                beta: if instance.has_c { args.beta.unwrap_or(-2.0) } else { 0.0 },
                good: OnceLock::new(),
            }));
        }
    }
    Ok(cases)
}

/// The kernels that the options name, by their rows in the table; otherwise the picker's for a shape.
fn chosen(args: &Args, gemm: &Gemm, [m, n, k]: [u64; 3]) -> Result<Vec<usize>, Error> {
    if args.all_instances {
        return Ok((0..gemm.instances().len()).collect());
    }
    if let Some(name) = &args.instance {
        return Ok(vec![instance::named(gemm, name, |_| true)?]);
    }
    let out = args.out_dtype.unwrap_or(args.dtype);
    let problem = GemmProblem { m, n, k, ab: args.dtype, out, beta_c: args.beta.is_some() };
    let plan = gemm.plan(&problem)?;
    let kernel = plan.describe().kernel.as_ref().ok_or_else(|| empty([m, n, k]))?;
    Ok(vec![kernel.index])
}

/// The kernels that the options name, each with steps along K, along the tiles of a CTA, or both in turn.
pub fn families(args: &Args) -> Result<Vec<Box<dyn Family>>, Error> {
    let device = Device::sim(SimConfig::default());
    let gemm = Gemm::new(&device, &warpipe::GEMM_IMAGE)?;
    let dimensions = args.steps.map_or_else(|| vec![Steps::K, Steps::Tiles], |steps| vec![steps]);
    let mut families: Vec<Box<dyn Family>> = Vec::new();
    for index in chosen(args, &gemm, SHAPE)? {
        for &steps in &dimensions {
            families.push(Box::new(Tiled { index, steps, gemm: gemm.instances()[index] }));
        }
    }
    Ok(families)
}

/// Products of one cluster with a kernel of the table, data-parallel.
struct Tiled {
    index: usize,
    steps: Steps,
    gemm: Instance,
}

/// K tiles of each tile, where the tiles are the steps.
const K_TILES: u32 = 2;

impl Tiled {
    /// A product of so many steps. The last tile has a few rows and columns only: the kernel does the
    /// same with it, and the result is compared sooner.
    fn problem(&self, steps: u32) -> GemmProblem {
        let Instance { bm, bn, bk, cluster_m, cluster_n, .. } = self.gemm;
        let (tiles, k_tiles) = match self.steps {
            Steps::K => (1, steps),
            Steps::Tiles => (steps, K_TILES),
        };
        let (m, n) = (bm * (cluster_m * tiles - 1) + 8, bn * (cluster_n - 1) + 8);
        // With swapped operands, the kernel's rows are D's columns.
        let (m, n) = if self.gemm.swap_ab { (n, m) } else { (m, n) };
        let (ab, out, beta_c) = (self.gemm.ab, self.gemm.out, self.gemm.has_c);
        GemmProblem { m: m.into(), n: n.into(), k: (bk * k_tiles).into(), ab, out, beta_c }
    }
}

impl Family for Tiled {
    fn name(&self) -> String {
        let step = match self.steps {
            Steps::K => "a k tile, of one tile of each CTA".to_owned(),
            Steps::Tiles => format!("a tile of each CTA, of {K_TILES} k tiles"),
        };
        format!("{}, a step is {step}", self.gemm.desc.meta.name())
    }

    fn run(&self, config: &SimConfig, trial: Trial) -> Result<Stats, Failure> {
        let problem = self.problem(trial.steps);
        let operands = Operands::generate(Generate { problem, seed: trial.data });
        let case = GemmCase {
            kernel: self.gemm.desc.meta.name().to_owned(),
            index: self.index,
            schedule: Schedule { clusters: 1, streamed: 0 },
            operands: Arc::new(operands.map_err(|e| Failure::Other(e.to_string()))?),
            alpha: 1.5,
            beta: if self.gemm.has_c { -2.0 } else { 0.0 },
            good: OnceLock::new(),
        };
        case.run(config)
    }
}

/// One product on a model with `sms` SMs, with the named instance or the picker's.
pub fn case(
    sms: u32,
    problem: GemmProblem,
    instance: Option<&str>,
    beta: f32,
) -> Result<Box<dyn Case>, Error> {
    let operands = Operands::generate(Generate { problem, seed: 0 })?;
    let device = Device::sim(SimConfig { sms, ..SimConfig::default() });
    let gemm = Gemm::new(&device, &warpipe::GEMM_IMAGE)?;
    let plan = match instance {
        Some(name) => {
            let types = (problem.ab, problem.out, problem.beta_c);
            let index = instance::named(&gemm, name, |i| (i.ab, i.out, i.has_c) == types)?;
            gemm.plan_with(&problem, index)?
        }
        None => gemm.plan(&problem)?,
    };
    let GemmProblem { m, n, k, .. } = problem;
    let kernel = plan.describe().kernel.as_ref().ok_or_else(|| empty([m, n, k]))?;
    let schedules = gemm.schedules(&problem, kernel.index)?;
    let fastest = schedules.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
    let (_, schedule) = fastest.ok_or_else(|| empty([m, n, k]))?;
    Ok(Box::new(GemmCase {
        kernel: kernel.name.clone(),
        index: kernel.index,
        schedule,
        operands: Arc::new(operands),
        alpha: 1.0,
        beta,
        good: OnceLock::new(),
    }))
}

/// The schedules that are checked: the one in the options, or all that are worth trying.
fn schedules(
    gemm: &Gemm,
    problem: &GemmProblem,
    index: usize,
    asked: Option<Schedule>,
) -> Result<Vec<Schedule>, Error> {
    if let Some(schedule) = asked {
        gemm.plan_scheduled(problem, index, schedule)?;
        return Ok(vec![schedule]);
    }
    Ok(gemm.schedules(problem, index)?.into_iter().map(|(_, schedule)| schedule).collect())
}

fn empty([m, n, k]: [u64; 3]) -> Error {
    Error::Usage(format!("{m} x {n} x {k}: D is empty, and no kernel runs"))
}

impl Case for GemmCase {
    fn name(&self) -> String {
        let GemmProblem { m, n, k, .. } = self.operands.problem;
        format!("{} {m}x{n}x{k} {}", self.kernel, self.schedule)
    }

    fn run(&self, config: &SimConfig) -> Result<Stats, Failure> {
        let problem = self.operands.problem;
        let device = Device::sim(config.clone());
        let gemm = Gemm::new(&device, &warpipe::GEMM_IMAGE)?;
        let plan = gemm.plan_scheduled(&problem, self.index, self.schedule)?;
        let a = device.upload(&self.operands.a.data)?;
        let b = device.upload(&self.operands.b.data)?;
        let c = self.operands.c.as_ref().map(|c| device.upload(&c.data)).transpose()?;
        let mut d = device.alloc(problem.bytes('D') as usize)?;
        // NaN in every type, so that the check finds elements that are not written.
        d.fill(0xff)?;
        plan.run(&a, &b, c.as_ref(), &mut d, self.alpha, self.beta)?;
        let d = d.to_vec()?;
        if self.good.get() != Some(&d) {
            let judged = Judged::new(&self.operands, self.alpha, self.beta, &d)?;
            if !judged.passed {
                let Judged { check, bound, .. } = judged;
                return Err(Failure::Other(format!(
                    "{}: wrong result: {check}, bound {bound:.0e}",
                    self.name()
                )));
            }
            // Another thread may have stored its result first; both are correct.
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
    fn every_schedule_is_right() {
        let problem =
            GemmProblem { m: 8, n: 16, k: 264, ab: Dtype::Bf16, out: Dtype::Bf16, beta_c: false };
        let device = Device::sim(SimConfig::default());
        let gemm = Gemm::new(&device, &warpipe::GEMM_IMAGE).unwrap();
        let kernel = gemm.plan(&problem).unwrap().describe().kernel.clone().unwrap();
        let operands = Arc::new(Operands::generate(Generate { problem, seed: 1 }).unwrap());
        let all = schedules(&gemm, &problem, kernel.index, None).unwrap();
        assert!(all.iter().any(|s| s.streamed == 0) && all.iter().any(|s| s.streamed > 0));
        for schedule in all {
            let case = GemmCase {
                kernel: kernel.name.clone(),
                index: kernel.index,
                schedule,
                operands: Arc::clone(&operands),
                alpha: 1.0,
                beta: 0.0,
                good: OnceLock::new(),
            };
            let stats = case.run(&SimConfig::default()).unwrap_or_else(|e| panic!("{e}"));
            assert!(stats.wgmmas > 0 && case.good.get().is_some());
            assert_eq!(stats.clusters, u64::from(schedule.clusters));
            assert!(case.name().ends_with(&format!(" 8x16x264 {schedule}")));
        }
        let too_many = Schedule { clusters: 1, streamed: 2 };
        assert!(schedules(&gemm, &problem, kernel.index, Some(too_many)).is_err());
    }

    #[test]
    fn every_instance_that_splits_tiles_does_in_its_cases() {
        let args =
            <TestLine as clap::Parser>::parse_from(["check", "gemm", "--all-instances"]).args;
        let names: Vec<_> = cases(&args).unwrap().iter().map(|c| c.name()).collect();
        let device = Device::sim(SimConfig::default());
        for instance in Gemm::new(&device, &warpipe::GEMM_IMAGE).unwrap().instances() {
            let kernel = format!("{} ", instance.desc.meta.name());
            let of = |whole: bool| {
                names.iter().any(|n| n.starts_with(&kernel) && n.ends_with("/0") == whole)
            };
            assert!(of(true) && of(false) == instance.splits_k, "{kernel}: {names:?}");
        }
    }

    #[derive(clap::Parser)]
    struct TestLine {
        #[command(flatten)]
        args: Args,
    }
}
