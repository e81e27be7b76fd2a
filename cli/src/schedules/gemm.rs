//! The GEMM kernels as cases, of any family.

use super::family::Family;
use super::tables::{MatricesTable, Product, Table, table};
use super::{Args, Case, Failure, Good, Steps};
use crate::error::Error;
use crate::family::refuse_with_layouts;
use crate::instance::{Kernels, named};
use crate::scaled::ScaleOf;
use host::gemm::{Gemm, GemmProblem, HardwareInfo, Schedule};
use host::sim::{Stats, Trial};
use host::{Device, SimConfig};
use std::sync::Arc;
use warpipe::gpu_kernels::gemm::Instance;

/// A shape with partial tiles in all three dimensions.
const SHAPE: [u64; 3] = [300, 520, 200];

struct GemmCase {
    kernel: &'static str,
    product: Arc<dyn Product>,
    /// The schedule of the kernel.
    schedule: Schedule,
    good: Good,
}

/// The cases that the options name.
pub fn cases(args: &Args) -> Result<Vec<Box<dyn Case>>, Error> {
    let table = table_of(args)?;
    let given = args.size()?;
    let mut cases: Vec<Box<dyn Case>> = Vec::new();
    for index in chosen(args, table.as_ref(), given)? {
        let row = &table.rows()[index];
        // One tile and a part of one in each dimension; k tiles for two CTAs, the last one partial.
        let (m, n) = (row.bm * row.cluster_m + 8, row.bn * row.cluster_n + 8);
        // With swapped operands, the kernel's rows are D's columns.
        let (m, n) = if row.swap_ab { (n, m) } else { (m, n) };
        let reach = [m, n, row.bk * 3 + 8].map(u64::from);
        let own = if args.all_instances { reach } else { SHAPE };
        let product = table.product(index, given.unwrap_or(table.rounded(own)), 0)?;
        for schedule in schedules(product.as_ref(), args.schedule)? {
            cases.push(Box::new(GemmCase {
                kernel: row.desc.meta.name(),
                product: Arc::clone(&product),
                schedule,
                good: Good::default(),
            }));
        }
    }
    Ok(cases)
}

/// The table that the options name, on a model.
fn table_of(args: &Args) -> Result<Box<dyn Table>, Error> {
    let (family, layouts, beta) = (&args.family, args.strided()?, args.beta.is_some());
    if family.groups.is_some() && beta {
        return Err(Error::Usage("products with --groups have no --beta: omit it".to_owned()));
    }
    if layouts.any() {
        refuse_with_layouts(&[("--beta", beta)])?;
    }
    table(family, layouts, args.beta, &Device::sim(SimConfig::default()))
}

/// The kernels that the options name, by their rows in the table; otherwise the picker's for a shape.
fn chosen(args: &Args, table: &dyn Table, given: Option<[u64; 3]>) -> Result<Vec<usize>, Error> {
    if let Some(size @ ([0, ..] | [_, 0, _])) = given {
        return Err(empty(size));
    }
    if args.all_instances {
        let rows = table.rows().iter().enumerate().filter(|(_, row)| table.fits(row));
        return Ok(rows.map(|(index, _)| index).collect());
    }
    if let Some(name) = &args.instance {
        return Ok(vec![named(table.rows(), name, |row| table.fits(row))?]);
    }
    Ok(vec![table.pick(given.unwrap_or(table.rounded(SHAPE)))?])
}

/// The kernels that the options name, each with steps along K, along the tiles of a CTA, or both in turn.
pub fn families(args: &Args) -> Result<Vec<Box<dyn Family>>, Error> {
    if args.family.groups.is_some() {
        let usage =
            "--certify has products of its own sizes, and --groups names others: omit one of them";
        return Err(Error::Usage(usage.to_owned()));
    }
    let table: Arc<dyn Table> = table_of(args)?.into();
    let dimensions = args.steps.map_or_else(|| vec![Steps::K, Steps::Tiles], |steps| vec![steps]);
    let mut families: Vec<Box<dyn Family>> = Vec::new();
    for index in chosen(args, table.as_ref(), None)? {
        for &steps in &dimensions {
            families.push(Box::new(Tiled { index, steps, table: Arc::clone(&table) }));
        }
    }
    Ok(families)
}

/// Products of one cluster with a kernel of the table, data-parallel.
struct Tiled {
    index: usize,
    steps: Steps,
    table: Arc<dyn Table>,
}

/// K tiles of each tile, where the tiles are the steps.
const K_TILES: u32 = 2;

impl Tiled {
    fn row(&self) -> &'static Instance {
        &self.table.rows()[self.index]
    }

    /// The size of a product of so many steps. The last tile has a few rows and columns only: the kernel does the
    /// same with it, and the result is compared sooner.
    fn size(&self, steps: u32) -> [u64; 3] {
        let Instance { bm, bn, bk, cluster_m, cluster_n, swap_ab, .. } = *self.row();
        let (tiles, k_tiles) = match self.steps {
            Steps::K => (1, steps),
            Steps::Tiles => (steps, K_TILES),
        };
        let (m, n) = (bm * (cluster_m * tiles - 1) + 8, bn * (cluster_n - 1) + 8);
        // With swapped operands, the kernel's rows are D's columns.
        let (m, n) = if swap_ab { (n, m) } else { (m, n) };
        self.table.rounded([m, n, bk * k_tiles].map(u64::from))
    }
}

impl Family for Tiled {
    fn name(&self) -> String {
        let step = match self.steps {
            Steps::K => "a k tile, of one tile of each CTA".to_owned(),
            Steps::Tiles => format!("a tile of each CTA, of {K_TILES} k tiles"),
        };
        format!("{}, a step is {step}", self.row().desc.meta.name())
    }

    fn run(&self, config: &SimConfig, trial: Trial) -> Result<Stats, Failure> {
        let case = GemmCase {
            kernel: self.row().desc.meta.name(),
            product: self.table.product(self.index, self.size(trial.steps), trial.data)?,
            schedule: Schedule { clusters: 1, streamed: 0 },
            good: Good::default(),
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
    let device = Device::sim(SimConfig { sms, ..SimConfig::default() });
    let kernels: Arc<dyn Kernels> = Arc::new(Gemm::new(&device, &warpipe::GEMM_IMAGE)?);
    let table = MatricesTable {
        kernels,
        problem,
        hardware: HardwareInfo::of(&device),
        types: None,
        out: None,
        epilogue: None,
        scales: ScaleOf::Tensor,
        fast_accum: false,
        factors: [1.0, beta],
    };
    let GemmProblem { m, n, k, ab, out, beta_c } = problem;
    if m == 0 || n == 0 {
        return Err(empty([m, n, k]));
    }
    let index = match instance {
        Some(name) => named(table.rows(), name, |i| (i.ab, i.out, i.has_c) == (ab, out, beta_c))?,
        None => table.pick([m, n, k])?,
    };
    let product = table.product(index, [m, n, k], 0)?;
    let fastest = product.schedules()?.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
    let (_, schedule) = fastest.ok_or_else(|| empty([m, n, k]))?;
    let kernel = table.rows()[index].desc.meta.name();
    Ok(Box::new(GemmCase { kernel, product, schedule, good: Good::default() }))
}

/// The schedules that are checked: the one in the options, or all that are worth trying.
fn schedules(product: &dyn Product, asked: Option<Schedule>) -> Result<Vec<Schedule>, Error> {
    match asked {
        Some(schedule) => {
            product.check_schedule(schedule)?;
            Ok(vec![schedule])
        }
        None => Ok(product.schedules()?.into_iter().map(|(_, schedule)| schedule).collect()),
    }
}

/// The error for a product without a result.
pub fn empty([m, n, k]: [u64; 3]) -> Error {
    Error::Usage(format!("{m} x {n} x {k}: D is empty, and no kernel runs"))
}

impl Case for GemmCase {
    fn name(&self) -> String {
        format!("{} {} {}", self.kernel, self.product.size(), self.schedule)
    }

    fn run(&self, config: &SimConfig) -> Result<Stats, Failure> {
        let device = Device::sim(config.clone());
        let d = self.product.run(&device, self.schedule)?;
        self.good.accept(&self.name(), d, |d| self.product.judge(d).map(Some))?;
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
        let table = table_with(&["check", "gemm"]);
        let size = [problem.m, problem.n, problem.k];
        let index = table.pick(size).unwrap();
        let gemm = Gemm::new(&device, &warpipe::GEMM_IMAGE).unwrap();
        let picked = gemm.plan(&problem).unwrap().describe().kernel.clone().unwrap();
        assert_eq!(index, picked.index);
        let product = table.product(index, size, 1).unwrap();
        let all = schedules(product.as_ref(), None).unwrap();
        assert!(all.iter().any(|s| s.streamed == 0) && all.iter().any(|s| s.streamed > 0));
        for schedule in all {
            let case = GemmCase {
                kernel: table.rows()[index].desc.meta.name(),
                product: Arc::clone(&product),
                schedule,
                good: Good::default(),
            };
            let stats = case.run(&SimConfig::default()).unwrap_or_else(|e| panic!("{e}"));
            assert!(stats.wgmmas > 0 && case.good.0.get().is_some());
            assert_eq!(stats.clusters, u64::from(schedule.clusters));
            assert!(case.name().ends_with(&format!(" 8x16x264 {schedule}")));
        }
        let too_many = Schedule { clusters: 1, streamed: 2 };
        assert!(schedules(product.as_ref(), Some(too_many)).is_err());
    }

    fn table_with(line: &[&str]) -> Box<dyn Table> {
        table_of(&<TestLine as clap::Parser>::parse_from(line).args).unwrap()
    }

    /// Of each family, its smallest kernel is right in one schedule, and options that it does not have are refused.
    #[test]
    fn families_have_tables_of_their_own() {
        for (options, rows) in [
            (&["--dtype", "e4m3"][..], "gemm_e4m3_"),
            (&["--dtype", "e4m3", "--fast-accum"], "gemm_e4m3_"),
            (&["--dtype", "e4m3", "--scales", "block"], "gemm_e4m3_"),
            (&["--dtype", "e4m3", "--out-dtype", "e4m3"], "gemm_e4m3_e4m3_"),
            (&["--dtype", "e4m3", "--beta", "0.5", "--scales", "row"], "gemm_e4m3_bf16_"),
            (&["--dtype", "e5m2xe4m3"], "gemm_e5m2xe4m3_"),
            (&["--dtype", "int8"], "gemm_s8_s32_"),
            (&["--dtype", "int8", "--out-dtype", "bf16"], "gemm_s8_bf16_"),
            (&["--dtype", "tf32"], "gemm_tf32_"),
            (&["--epilogue", "bias+gelu"], "gemm_fused_bf16_"),
            (&["--epilogue", "swiglu", "--dtype", "f16"], "gemm_gated_f16_"),
            (&["--layout", "tt", "--batch", "2"], "gemm_layout_bf16_tt_"),
        ] {
            let table = table_with(&[&["check", "gemm"], options].concat());
            let fitting: Vec<_> =
                (0..table.rows().len()).filter(|i| table.fits(&table.rows()[*i])).collect();
            let least = fitting.iter().min_by_key(|i| table.rows()[**i].bm * table.rows()[**i].bn);
            let index = *least.unwrap_or_else(|| panic!("{options:?}: no kernel"));
            let name = table.rows()[index].desc.meta.name();
            assert!(name.starts_with(rows), "{options:?}: {name}");
            let product = table.product(index, table.rounded([24, 40, 264]), 1).unwrap();
            let schedule = schedules(product.as_ref(), None).unwrap()[0];
            let case = GemmCase { kernel: name, product, schedule, good: Good::default() };
            let stats = case.run(&SimConfig::default());
            let stats = stats.unwrap_or_else(|e| panic!("{options:?}: {e}"));
            assert!(stats.wgmmas > 0 && case.good.0.get().is_some(), "{options:?}");
        }
        for options in [
            &["--dtype", "int8", "--fast-accum"][..],
            &["--dtype", "e5m2", "--scales", "block"],
            &["--scales", "row"],
            &["--dtype", "tf32", "--epilogue", "bias"],
            &["--epilogue", "swiglu", "--beta", "1"],
            &["--layout", "nn", "--beta", "1"],
            &["--batch", "2", "--epilogue", "relu"],
            &["--dtype", "e4m3", "--batch", "2"],
        ] {
            let line = [&["check", "gemm"], options].concat();
            let args = <TestLine as clap::Parser>::parse_from(line).args;
            let refused = table_of(&args).err().unwrap_or_else(|| panic!("{options:?}"));
            assert_eq!((refused.exit_code(), refused.to_string().lines().count()), (2, 1));
        }
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
