//! The attention kernels as cases.

use super::family::Family;
use super::{Args, Case, Failure, Steps};
use crate::attention::operands::Operands;
use crate::attention::shape::ShapeArgs;
use crate::attention::{judge, once};
use crate::error::Error;
use host::attention::{Attention, AttentionProblem, Heads, Mask, Sequences};
use host::sim::{Stats, Trial};
use host::{Device, SimConfig};
use isa::kernel::Dtype;
use std::sync::{Arc, OnceLock};
use warpipe::gpu_kernels::attention::Instance;

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
    let shape = &args.attention;
    let problem = |instance: Option<&Instance>| match instance {
        _ if shape.sized() => shape.generated(instance.map_or(args.dtype, |i| i.dtype)),
        None => reach(args, 64, None),
        Some(instance) => reach(args, instance.head_dim, Some(instance)),
    };
    let mut chosen = Vec::new();
    if args.all_instances {
        chosen.extend(0..attention.instances().len());
    } else if let Some(name) = &args.instance {
        chosen.push(named(attention.instances(), name)?);
    }
    let case = |index: usize, problem: AttentionProblem| -> Result<Box<dyn Case>, Error> {
        attention.plan_with(&problem, index)?;
        let kernel = attention.instances()[index].desc.meta.name().to_owned();
        let operands = Arc::new(Operands::generate(problem, 0)?);
        Ok(Box::new(AttentionCase { kernel, index, operands, good: OnceLock::new() }))
    };
    if chosen.is_empty() {
        let problem = problem(None)?;
        let index = attention.plan(&problem)?.describe().index;
        return Ok(vec![case(index, problem)?]);
    }
    chosen
        .into_iter()
        .map(|index| case(index, problem(Some(&attention.instances()[index]))?))
        .collect()
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
    let table = attention.instances();
    let index = instance.map(|name| named(table, name)).transpose()?;
    let problem = if shape.sized() {
        shape.generated(dtype)?
    } else {
        let dtype = index.map_or(dtype, |index| table[index].dtype);
        let dim = index.map_or(64, |index| table[index].head_dim);
        let heads = Heads {
            q: shape.heads.unwrap_or(4),
            kv: shape.kv_heads.or(shape.heads).unwrap_or(4),
            dim: shape.head_dim.unwrap_or(dim),
        };
        let default = Sequences::Equal { batch: shape.batch.unwrap_or(1), q: 256, kv: 512 };
        let problem = shape.problem(dtype, heads, shape.sequences()?.unwrap_or(default))?;
        let softcap = index.is_some_and(|index| table[index].soft_cap).then_some(2.0);
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
    let table = attention.instances();
    let chosen: Vec<usize> = match &args.instance {
        _ if args.all_instances => (0..table.len()).collect(),
        Some(name) => vec![named(table, name)?],
        None => vec![attention.plan(&reach(args, 64, None)?)?.describe().index],
    };
    let dimensions = args.steps.map_or_else(|| vec![Steps::K, Steps::Tiles], |steps| vec![steps]);
    let mut families: Vec<Box<dyn Family>> = Vec::new();
    for index in chosen {
        for &steps in &dimensions {
            families.push(Box::new(Tiled { index, steps, instance: table[index] }));
        }
    }
    Ok(families)
}

/// Attention of one CTA with a kernel of the table.
struct Tiled {
    index: usize,
    steps: Steps,
    instance: Instance,
}

/// Key blocks of each tile, where the tiles are the steps.
const BLOCKS: u32 = 2;

impl Tiled {
    /// A problem of so many steps. The last tile has a few rows only: the kernel does the same with it, and the result
    /// is compared sooner.
    fn problem(&self, steps: u32) -> AttentionProblem {
        let Instance { bm, bn, dtype, head_dim, .. } = self.instance;
        let (tiles, blocks) = match self.steps {
            Steps::K => (1, steps),
            Steps::Tiles => (steps, BLOCKS),
        };
        let heads = Heads { q: 1, kv: 1, dim: head_dim };
        let sequences = Sequences::Equal { batch: 1, q: bm * (tiles - 1) + 8, kv: bn * blocks - 8 };
        AttentionProblem {
            softcap: self.instance.soft_cap.then_some(2.0),
            lse: true,
            ..AttentionProblem::bshd(dtype, heads, sequences)
        }
    }
}

impl Family for Tiled {
    fn name(&self) -> String {
        let step = match self.steps {
            Steps::K => "a block of keys, of one tile".to_owned(),
            Steps::Tiles => format!("a tile of the CTA, of {BLOCKS} blocks of keys"),
        };
        format!("{}, a step is {step}", self.instance.desc.meta.name())
    }

    fn run(&self, config: &SimConfig, trial: Trial) -> Result<Stats, Failure> {
        let operands = Operands::generate(self.problem(trial.steps), trial.data);
        let case = AttentionCase {
            kernel: self.instance.desc.meta.name().to_owned(),
            index: self.index,
            operands: Arc::new(operands.map_err(|e| Failure::Other(e.to_string()))?),
            good: OnceLock::new(),
        };
        case.run(&SimConfig { sms: 1, ..config.clone() })
    }
}

/// Row of the instance with this name, or with a name that ends so.
fn named(table: &[Instance], name: &str) -> Result<usize, Error> {
    let names: Vec<&str> = table.iter().map(|i| i.desc.meta.name()).collect();
    let exact = names.iter().position(|have| *have == name);
    let ends: Vec<usize> = (0..names.len()).filter(|&i| names[i].ends_with(name)).collect();
    match (exact, &ends[..]) {
        (Some(index), _) => Ok(index),
        (None, &[index]) if !name.is_empty() => Ok(index),
        _ => Err(Error::Usage(format!(
            "no attention kernel {name}; there are: {}",
            names.join(", ")
        ))),
    }
}

/// A small problem with partial tiles and blocks, several tiles for a CTA, rows without keys, and shared heads.
fn reach(args: &Args, dim: u32, instance: Option<&Instance>) -> Result<AttentionProblem, Error> {
    let shape = &args.attention;
    let heads = Heads {
        q: shape.heads.unwrap_or(2),
        kv: shape.kv_heads.or(shape.heads).unwrap_or(1),
        dim: shape.head_dim.unwrap_or(dim),
    };
    let default = Sequences::Equal { batch: shape.batch.unwrap_or(1), q: 300, kv: 200 };
    let sequences = shape.sequences()?.unwrap_or(default);
    let problem = shape.problem(instance.map_or(args.dtype, |i| i.dtype), heads, sequences)?;
    let masked = shape.causal || shape.window.is_some();
    Ok(AttentionProblem {
        mask: if masked { problem.mask } else { Mask::CAUSAL },
        softcap: problem.softcap.or(instance.is_some_and(|i| i.soft_cap).then_some(2.0)),
        lse: true,
        ..problem
    })
}

impl Case for AttentionCase {
    fn name(&self) -> String {
        let AttentionProblem { heads, sequences, mask, .. } = &self.operands.problem;
        let (Heads { q, kv, dim }, [rows, keys]) = (heads, sequences.rows());
        let batch = sequences.batch();
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
