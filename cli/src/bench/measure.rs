//! Measures the selected shapes, one after the other.

use super::types::Types;
use super::{Args, Item, Rival};
use crate::error::Error;
use crate::instance;
use crate::progress::Progress;
use crate::tune::Tuner;
use host::gemm::{BoundGemm, Gemm, GemmPlan, GemmProblem, ScaledGemm};
use host::{Device, Stream, dtype_name};
use std::time::{SystemTime, UNIX_EPOCH};
use warpipe_bench::cublaslt::{CublasLt, CublasLtPlan};
use warpipe_bench::line::{Line, heading, text_of};
use warpipe_bench::machine::Machine;
use warpipe_bench::report::Report;
use warpipe_bench::{Bench, BenchConfig, Launch, ScaleOf, suites};

/// Measures `items` and passes each line to `tell` as soon as it is known.
pub fn measure(
    args: &Args,
    device: &Device,
    items: &[Item],
    tuner: Option<Tuner>,
    tell: impl Fn(&str) -> Result<(), Error>,
) -> Result<Report, Error> {
    let (types, image) = (args.types()?, &warpipe::GEMM_IMAGE);
    let timing = Timing { args, types, device, items };
    match types.scales {
        None => timing.measure(&Gemm::new(device, image)?, tuner, tell),
        Some(ScaleOf::Block) => timing.measure(&Gemm::block_scaled(device, image)?, tuner, tell),
        Some(_) => {
            timing.measure(&ScaledGemm::scaled(device, image, types.fast_accum)?, tuner, tell)
        }
    }
}

/// What a benchmark times.
struct Timing<'a> {
    args: &'a Args,
    types: Types,
    device: &'a Device,
    items: &'a [Item],
}

impl Timing<'_> {
    /// Measures the products with kernels that compute them, in the plans of the tune cache or of the other options.
    fn measure<E: Launch>(
        &self,
        gemm: &Gemm<E>,
        mut tuner: Option<Tuner>,
        tell: impl Fn(&str) -> Result<(), Error>,
    ) -> Result<Report, Error> {
        let Self { args, types, device, items } = *self;
        let config = config(args);
        // A wrong instance or schedule is reported before anything is measured.
        for (_, problem) in items {
            if args.instance.is_some() {
                plans(args, gemm, problem)?;
            }
        }
        let progress = Progress::new(items.len() as u64 + 1);
        let problems: Vec<GemmProblem> = items.iter().map(|(_, problem)| *problem).collect();
        let mut bench =
            progress.step("making operands", || operands(args, types, device, &problems))?;
        let info = device.info().ok_or(host::Error::NotOnModel { what: "a benchmark" })?;
        let mut machine = Machine::of(info);
        machine.copy_gbs = Some(bench.copy_gbs()?);
        tell(&machine.to_string())?;
        let (lt, cublaslt_absent) = rival(args, device)?;
        let cublaslt = lt.as_ref().map(CublasLt::version);
        if let Some(version) = cublaslt {
            tell(&format!("cuBLASLt {version}"))?;
        } else if let Some(why) = &cublaslt_absent {
            tell(why)?;
        }
        let mut lines: Vec<Line> = Vec::with_capacity(items.len());
        for (suite, problem) in items {
            if lines.last().is_none_or(|line| line.suite != *suite) {
                tell(&format!("\n{}\n{}", types.title(suite), heading()))?;
            }
            let plans = match &mut tuner {
                Some(tuner) => vec![self.tuned(tuner, gemm, &bench, problem, &tell)?],
                None => plans(args, gemm, problem)?,
            };
            if items.len() == 1 {
                tell(&plans[0].describe().to_string())?;
            }
            let rivals = rivals(&bench, lt.as_ref(), problem, types, &tell)?;
            let name = format!("timing {}x{}x{}", problem.m, problem.n, problem.k);
            let measured = progress.step(&name, || bench.measure(&plans, &rivals, &config))?;
            let bound = types.bound(problem);
            let Some(line) = Line::new(suite, problem, &measured, bound) else { continue };
            let line = line.with_scales(types.scales, types.fast_accum);
            tell(&text_of(&line, suites::floor(suite)))?;
            lines.push(line);
        }
        drop(progress);
        let summaries = Report::summaries(&lines);
        Ok(Report {
            warpipe: env!("CARGO_PKG_VERSION").to_owned(),
            command: std::env::args().skip(1).collect::<Vec<_>>().join(" "),
            unix_time: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_secs()),
            machine,
            cublaslt,
            cublaslt_absent,
            config,
            lines,
            summaries,
        })
    }

    /// The plan of the tune cache, or the fastest of a search, whose result is compared with the f64 product.
    fn tuned<E: Launch>(
        &self,
        tuner: &mut Tuner,
        gemm: &Gemm<E>,
        bench: &Bench,
        problem: &GemmProblem,
        tell: impl Fn(&str) -> Result<(), Error>,
    ) -> Result<GemmPlan<E>, Error> {
        let scales = bench.scales(problem)?;
        let queue =
            |bound: &BoundGemm<'_, E>, stream: &Stream| E::launch(bound, scales.as_ref(), stream);
        let plan = tuner.plan(gemm, problem, queue)?;
        if tuner.found() {
            let (check, bound) = (bench.check(&plan)?, self.types.bound(problem));
            if !check.below(bound) {
                let (error, dtype) = (check.error(), dtype_name(problem.out));
                return Err(Error::Check { error, bound, dtype, k: problem.k });
            }
        }
        tuner.keep()?.map_or(Ok(()), |found| tell(&found))?;
        Ok(plan)
    }
}

/// Operands of these types for any of `problems`.
pub fn operands(
    args: &Args,
    types: Types,
    device: &Device,
    problems: &[GemmProblem],
) -> Result<Bench, warpipe_bench::Error> {
    let bench = Bench::new(device, types.ab, args.seed, problems)?;
    match types.scales {
        Some(of) => bench.with_scales(of, problems),
        None => Ok(bench),
    }
}

/// The kernels that cuBLASLt proposes for a product: none if it takes no part. If it refuses the product, which is then timed
/// without it, `tell` gets the reason.
pub fn rivals(
    bench: &Bench,
    lt: Option<&CublasLt>,
    problem: &GemmProblem,
    types: Types,
    tell: impl Fn(&str) -> Result<(), Error>,
) -> Result<Vec<CublasLtPlan>, Error> {
    match lt.map(|lt| bench.rivals(lt, problem, types.fast_accum)) {
        None => Ok(Vec::new()),
        Some(Ok(rivals)) => Ok(rivals),
        Some(Err(e @ warpipe_bench::Error::CublasLt { .. })) => {
            let GemmProblem { m, n, k, .. } = *problem;
            tell(&format!("{m}x{n}x{k} without cuBLASLt: {e}"))?;
            Ok(Vec::new())
        }
        Some(Err(e)) => Err(e.into()),
    }
}

/// The settings that the options give.
pub fn config(args: &Args) -> BenchConfig {
    BenchConfig {
        rounds: args.rounds as usize,
        budget_ms: args.budget as f64,
        seed: args.seed,
        isolated: args.isolated,
        ..BenchConfig::default()
    }
}

/// cuBLASLt, if the options ask for it, or why it is absent.
pub fn rival(args: &Args, device: &Device) -> Result<(Option<CublasLt>, Option<String>), Error> {
    match args.vs.map(|Rival::Cublaslt| CublasLt::new(device)) {
        None => Ok((None, None)),
        Some(Ok(lt)) => Ok((Some(lt), None)),
        Some(Err(e @ warpipe_bench::Error::NoCublasLt { .. })) => Ok((None, Some(e.to_string()))),
        Some(Err(e)) => Err(e.into()),
    }
}

/// The plan of the named instance or of the picker, followed by all others with `--all-instances`.
fn plans<E: Launch>(
    args: &Args,
    gemm: &Gemm<E>,
    problem: &GemmProblem,
) -> Result<Vec<GemmPlan<E>>, Error> {
    if let Some(asked) = &args.instance {
        let types = (problem.ab, problem.out, false);
        let index = instance::named(gemm.instances(), asked, |i| (i.ab, i.out, i.has_c) == types)?;
        let plan = match args.schedule {
            Some(schedule) => gemm.plan_scheduled(problem, index, schedule)?,
            None => gemm.plan_with(problem, index)?,
        };
        return Ok(vec![plan]);
    }
    let mut plans = vec![gemm.plan(problem)?];
    if args.all_instances {
        let of =
            |plan: &GemmPlan<E>| plan.describe().kernel.as_ref().map(|k| (k.index, k.schedule()));
        let picked = of(&plans[0]);
        plans.extend(gemm.plan_every(problem)?.into_iter().filter(|plan| of(plan) != picked));
    }
    Ok(plans)
}
