//! The attention kernels as cases.

use super::family::Family;
use super::{Args, Case, Failure, Steps};
use crate::attention::operands::Operands;
use crate::attention::shape::ShapeArgs;
use crate::attention::{judge, once};
use crate::error::Error;
use crate::instance::nearest;
use host::attention::{Attention, AttentionKernel, AttentionProblem, Heads, Mask, Sequences};
use host::sim::{Stats, Trial};
use host::{Device, SimConfig};
use isa::kernel::Dtype;
use std::sync::{Arc, OnceLock};

struct AttentionCase {
    kernel: String,
    index: usize,
    operands: Arc<Operands>,
    /// The bits of results that matched the reference. Later results with the same bits need no comparison.
    good: OnceLock<(Vec<u8>, Option<Vec<u8>>)>,
}

/// The cases that the options name.
pub fn cases(args: &Args) -> Result<Vec<Box<dyn Case>>, Error> {
    let device = Device::sim(SimConfig::default());
    let attention = Attention::new(&device, &warpipe::GEMM_IMAGE)?;
    let table: Vec<AttentionKernel> = attention.kernels().collect();
    let shape = &args.attention()?;
    let case = |index: usize, problem: AttentionProblem| -> Result<Box<dyn Case>, Error> {
        attention.plan_with(&problem, index)?;
        let kernel = table[index].name().to_owned();
        let operands = Arc::new(Operands::generate(problem, 0)?);
        Ok(Box::new(AttentionCase { kernel, index, operands, good: OnceLock::new() }))
    };
    let chosen: Vec<usize> = match &args.instance {
        _ if args.all_instances => (0..table.len()).collect(),
        Some(name) => vec![named(&table, name)?],
        None => {
            let problem =
                if shape.sized() { shape.generated(args.half()?)? } else { reach(args, 64, None)? };
            let index = attention.plan(&problem)?.describe().index;
            return Ok(vec![case(index, problem)?]);
        }
    };
    let mut cases = Vec::new();
    for index in chosen {
        let kernel = table[index];
        if shape.sized() {
            cases.push(case(index, shape.generated(kernel.dtype())?)?);
            continue;
        }
        let [_, _, dim] = kernel.tile();
        let problem = reach(args, dim, Some(kernel))?;
        if let (AttentionKernel::Split(_), Sequences::Cache { .. }) = (kernel, &problem.sequences) {
            cases.push(case(index, in_pages(&problem))?);
        }
        cases.push(case(index, problem)?);
    }
    Ok(cases)
}

/// One problem on a model with `sms` SMs, with the named instance or the picker's. Without sizes, two tiles for each of
/// four CTAs.
pub fn case(
    sms: u32,
    dtype: Dtype,
    shape: &ShapeArgs,
    instance: Option<&str>,
) -> Result<Box<dyn Case>, Error> {
    let device = Device::sim(SimConfig { sms, ..SimConfig::default() });
    let attention = Attention::new(&device, &warpipe::GEMM_IMAGE)?;
    let table: Vec<AttentionKernel> = attention.kernels().collect();
    let index = instance.map(|name| named(&table, name)).transpose()?;
    let kernel = index.map(|index| table[index]);
    let problem = if shape.sized() {
        shape.generated(dtype)?
    } else {
        let dtype = kernel.map_or(dtype, |kernel| kernel.dtype());
        let dim = kernel.map_or(64, |kernel| kernel.tile()[2]);
        let heads = Heads {
            q: shape.heads.unwrap_or(4),
            kv: shape.kv_heads.or(shape.heads).unwrap_or(4),
            dim: shape.head_dim.unwrap_or(dim),
        };
        let q = if let Some(AttentionKernel::Split(_)) = kernel { 3 } else { 256 };
        let default = Sequences::Equal { batch: shape.order.batch.unwrap_or(1), q, kv: 512 };
        let problem = shape.problem(dtype, heads, shape.sequences()?.unwrap_or(default))?;
        let softcap = kernel.is_some_and(|kernel| kernel.soft_cap()).then_some(2.0);
        AttentionProblem { softcap: problem.softcap.or(softcap), ..problem }
    };
    let plan = match index {
        Some(index) => attention.plan_with(&problem, index)?,
        None => attention.plan(&problem)?,
    };
    let (kernel, index) = (plan.describe().kernel.clone(), plan.describe().index);
    let operands = Arc::new(Operands::generate(problem, 0)?);
    Ok(Box::new(AttentionCase { kernel, index, operands, good: OnceLock::new() }))
}

/// The kernels that the options name, each with steps along the keys, along the tiles of a CTA, or both in turn.
pub fn families(args: &Args) -> Result<Vec<Box<dyn Family>>, Error> {
    let device = Device::sim(SimConfig::default());
    let attention = Attention::new(&device, &warpipe::GEMM_IMAGE)?;
    let table: Vec<AttentionKernel> = attention.kernels().collect();
    let chosen: Vec<usize> = match &args.instance {
        _ if args.all_instances => (0..table.len()).collect(),
        Some(name) => vec![named(&table, name)?],
        None => vec![attention.plan(&reach(args, 64, None)?)?.describe().index],
    };
    let dimensions = args.steps.map_or_else(|| vec![Steps::K, Steps::Tiles], |steps| vec![steps]);
    let mut families: Vec<Box<dyn Family>> = Vec::new();
    for index in chosen {
        for &steps in &dimensions {
            families.push(Box::new(Tiled { index, steps, kernel: table[index] }));
        }
    }
    Ok(families)
}

/// Attention of one CTA with a kernel of the table.
struct Tiled {
    index: usize,
    steps: Steps,
    kernel: AttentionKernel,
}

/// Key blocks of each tile, where the tiles are the steps.
const BLOCKS: u32 = 2;
/// Rows of a page of a cache.
const PAGE_ROWS: u32 = 64;

impl Tiled {
    /// A problem of so many steps. The last tile has a few rows only: the kernel does the same with it, and the result
    /// is compared sooner. A tile of a decode kernel has the queries of a sequence.
    fn problem(&self, steps: u32) -> AttentionProblem {
        let [bm, bn, dim] = self.kernel.tile();
        let (tiles, blocks) = match self.steps {
            Steps::K => (1, steps),
            Steps::Tiles => (steps, BLOCKS),
        };
        let heads = Heads { q: 1, kv: 1, dim };
        let kv = bn * blocks - 8;
        let sequences = match self.kernel {
            AttentionKernel::Tiles(_) => Sequences::Equal { batch: 1, q: bm * (tiles - 1) + 8, kv },
            AttentionKernel::Split(_) => Sequences::Equal { batch: tiles, q: 8, kv },
        };
        AttentionProblem {
            softcap: self.kernel.soft_cap().then_some(2.0),
            lse: true,
            ..AttentionProblem::bshd(self.kernel.dtype(), heads, sequences)
        }
    }
}

impl Family for Tiled {
    fn name(&self) -> String {
        let step = match self.steps {
            Steps::K => "a block of keys, of one tile".to_owned(),
            Steps::Tiles => format!("a tile of the CTA, of {BLOCKS} blocks of keys"),
        };
        format!("{}, a step is {step}", self.kernel.name())
    }

    fn run(&self, config: &SimConfig, trial: Trial) -> Result<Stats, Failure> {
        let operands = Operands::generate(self.problem(trial.steps), trial.data);
        let case = AttentionCase {
            kernel: self.kernel.name().to_owned(),
            index: self.index,
            operands: Arc::new(operands.map_err(|e| Failure::Other(e.to_string()))?),
            good: OnceLock::new(),
        };
        case.run(&SimConfig { sms: 1, ..config.clone() })
    }
}

/// Index of the kernel with this name, or with a name that ends so.
fn named(table: &[AttentionKernel], name: &str) -> Result<usize, Error> {
    let names: Vec<&str> = table.iter().map(AttentionKernel::name).collect();
    let exact = names.iter().position(|have| *have == name);
    let ends: Vec<usize> = (0..names.len()).filter(|&i| names[i].ends_with(name)).collect();
    match (exact, &ends[..]) {
        (Some(index), _) => Ok(index),
        (None, &[index]) if !name.is_empty() => Ok(index),
        _ => Err(Error::Usage(format!("no attention kernel {name}; {}", nearest(name, names)))),
    }
}

/// A small problem with partial tiles and blocks, several tiles for a CTA, rows without keys, and shared heads. One for
/// a decode kernel has a cache, with a tile whose keys are split, one with few keys, and one without.
fn reach(
    args: &Args,
    dim: u32,
    kernel: Option<AttentionKernel>,
) -> Result<AttentionProblem, Error> {
    let shape = &args.attention()?;
    let heads = Heads {
        q: shape.heads.unwrap_or(2),
        kv: shape.kv_heads.or(shape.heads).unwrap_or(1),
        dim: shape.head_dim.unwrap_or(dim),
    };
    let default = match kernel {
        Some(AttentionKernel::Split(_)) => {
            Sequences::Cache { q: 3, keys: vec![500, 0, 1, 70], capacity: 512 }
        }
        _ => Sequences::Equal { batch: shape.order.batch.unwrap_or(1), q: 300, kv: 200 },
    };
    let sequences = shape.sequences()?.unwrap_or(default);
    let dtype = kernel.map_or(args.half()?, |kernel| kernel.dtype());
    let problem = shape.problem(dtype, heads, sequences)?;
    let masked = shape.causal || shape.window.is_some();
    Ok(AttentionProblem {
        mask: if masked { problem.mask } else { Mask::CAUSAL },
        softcap: problem.softcap.or(kernel.is_some_and(|i| i.soft_cap()).then_some(2.0)),
        lse: true,
        ..problem
    })
}

/// The same problem with its cache in pages of 64 rows.
fn in_pages(problem: &AttentionProblem) -> AttentionProblem {
    let Sequences::Cache { q, keys, capacity } = &problem.sequences else { return problem.clone() };
    let sequence_pages = capacity.div_ceil(PAGE_ROWS);
    let sequences = Sequences::Paged {
        q: *q,
        keys: keys.clone(),
        pages: sequence_pages * keys.len() as u32,
        page_rows: PAGE_ROWS,
        sequence_pages,
    };
    let AttentionProblem { dtype, heads, mask, scale, softcap, lse, .. } = *problem;
    let plain = AttentionProblem::bshd(dtype, heads, sequences);
    AttentionProblem { mask, scale, softcap, lse, ..plain }
}

impl Case for AttentionCase {
    fn name(&self) -> String {
        let AttentionProblem { heads, sequences, mask, .. } = &self.operands.problem;
        let (Heads { q, kv, dim }, [rows, keys]) = (heads, sequences.rows());
        let batch = sequences.batch();
        let keys = match sequences {
            Sequences::Cache { .. } => format!("a cache of {keys}"),
            Sequences::Paged { sequence_pages, .. } => format!("{sequence_pages} pages of {keys}"),
            _ => keys.to_string(),
        };
        format!("{} {batch} x {q}/{kv} heads of {dim}, {rows} x {keys}, {mask}", self.kernel)
    }

    fn run(&self, config: &SimConfig) -> Result<Stats, Failure> {
        let device = Device::sim(config.clone());
        let attention = Attention::new(&device, &warpipe::GEMM_IMAGE)?;
        let plan = attention.plan_with(&self.operands.problem, self.index)?;
        let (results, _) = once(&plan, &device, &self.operands)?;
        let same = |(o, lse): &(Vec<u8>, Option<Vec<u8>>)| *o == results.o && *lse == results.lse;
        if !self.good.get().is_some_and(same) {
            let check = judge(&self.operands, &results)?;
            if !check.passed {
                return Err(Failure::Other(format!("{}: wrong result: {check}", self.name())));
            }
            // Another thread may have stored its result first; both are correct.
            let _ = self.good.set((results.o, results.lse));
        }
        Ok(device.model_stats().unwrap_or_default())
    }
}
