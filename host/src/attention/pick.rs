//! The choice of the kernel.

use super::Attention;
use super::error::AttentionError;
use super::kernel::AttentionKernel;
use super::problem::AttentionProblem;
use super::sequences::Sequences;
use super::split::RowShape;
use super::strides::Operand;
use super::work::tiles_of;
use gpu_kernels::attention::Instance;
use gpu_kernels::attention::args::GROUP_ROWS;
use gpu_kernels::attention::decode::DecodeInstance;
use gpu_kernels::attention::decode::args::ROWS;
use std::fmt::Write;
use std::ops::Range;

/// A kernel, its index in [`Attention::kernels`], and why it was chosen.
pub(super) struct Pick {
    pub kernel: AttentionKernel,
    pub index: usize,
    pub why: String,
}

impl AttentionKernel {
    fn fits(self, problem: &AttentionProblem) -> bool {
        match self {
            Self::Tiles(instance) => fits(instance, problem),
            Self::Split(instance) => fits_split(instance, problem),
        }
    }
    fn in_words(self) -> String {
        match self {
            Self::Tiles(instance) => in_words(instance),
            Self::Split(instance) => split_in_words(instance),
        }
    }
}

/// The kernel that the caller asks for.
pub(super) fn asked_for(
    attention: &Attention,
    problem: &AttentionProblem,
    index: usize,
) -> Result<Pick, AttentionError> {
    let have = match attention.kernels().nth(index) {
        Some(kernel) if kernel.fits(problem) => {
            return Ok(Pick { kernel, index, why: "the caller asked for it".to_owned() });
        }
        Some(kernel) => format!("it computes {}", kernel.in_words()),
        None => "the table has no such row".to_owned(),
    };
    Err(AttentionError::WrongInstance { index, count: attention.kernels().count(), have })
}

/// Picks a decode kernel for caches, and for few queries; otherwise a kernel of tiles.
pub(super) fn pick(
    attention: &Attention,
    problem: &AttentionProblem,
) -> Result<Pick, AttentionError> {
    let heads = problem.heads;
    let readers = heads.q / heads.kv;
    let rows = u64::from(RowShape::of(readers).heads()) * u64::from(problem.sequences.longest()[0]);
    let few = readers <= ROWS && rows <= u64::from(ROWS);
    let wanted = few || problem.sequences.cached();
    let fits = |i: &DecodeInstance| wanted && fits_split(i, problem);
    let split = attention.decode.iter().enumerate().filter(|(_, i)| fits(i));
    match split.min_by_key(|(_, i)| (i.head_dim, split_cost(i, few))) {
        Some((row, instance)) => {
            let (index, columns) = (attention.instances.len() + row, instance.head_dim);
            let split = if few {
                format!("{rows} rows of queries share their keys, so the keys are split")
            } else {
                "the keys are in a cache, so they are split".to_owned()
            };
            let why =
                format!("{split}, in blocks of {}; {columns} columns hold a head", instance.bn);
            Ok(Pick { kernel: AttentionKernel::Split(instance), index, why })
        }
        None => pick_tiles(attention, problem),
    }
}

/// Whether a decode kernel computes a problem.
fn fits_split(instance: &DecodeInstance, problem: &AttentionProblem) -> bool {
    let steps = [Operand::K, Operand::V].iter().all(|&o| problem.page_step(o).is_ok());
    // No block lies in two pages.
    let sequences = match problem.sequences {
        Sequences::Packed { .. } => false,
        Sequences::Paged { page_rows, .. } => page_rows.is_multiple_of(instance.bn),
        Sequences::Equal { .. } | Sequences::Cache { .. } => true,
    };
    let cap = problem.softcap.is_none() || instance.soft_cap;
    let operands = instance.dtype == problem.dtype && instance.head_dim >= problem.heads.dim;
    sequences && steps && cap && operands
}

/// The elements of K in a block that suits few queries: 16 KiB. Two such blocks of K, and two of V, keep the memory of an
/// H200 busy. With more in flight, CTAs that read pages of the memory together drift apart.
const BLOCK: u32 = 64 * 128;

/// How little a kernel suits a problem, of kernels for the same head dim. If several tiles share the keys, the tensor cores
/// and the softmax take longest, and large blocks wait less often. The lengths of a cache don't count, so that equal lengths
/// give equal bits whichever lengths the plan was made for.
fn split_cost(instance: &DecodeInstance, few: bool) -> u32 {
    let elements = instance.bn * instance.head_dim;
    if few { elements.abs_diff(BLOCK) } else { u32::MAX - elements }
}

/// Whether an instance computes a problem.
fn fits(instance: &Instance, problem: &AttentionProblem) -> bool {
    let packed = matches!(problem.sequences, Sequences::Packed { .. });
    let same = (instance.dtype, instance.soft_cap, instance.packed)
        == (problem.dtype, problem.softcap.is_some(), packed);
    let windows = instance.windows || problem.mask.left.is_none();
    same && windows && !problem.sequences.cached() && instance.head_dim >= problem.heads.dim
}

/// How fast three warp groups that multiply are beside two, for the same scores: they hide more of each other's
/// softmax. (Head dim 64, full, 4096 and more queries: 551 against 455 TFLOP/s on an H200, driver 580.159.04,
/// 2026-11-23.)
const THREE_GROUPS: f64 = 1.2;

/// The time of the blocks of scores that an instance computes, in scores of two warp groups. Large tiles compute more
/// scores that a causal mask hides. A warp group passes over the blocks behind the last one that it sees.
fn cost(instance: &Instance, problem: &AttentionProblem) -> f64 {
    let (bn, groups) = (instance.bn, instance.bm / GROUP_ROWS);
    let blocks = |batch: u32| -> u64 {
        let of_tile = |rows: Range<u32>| -> u64 {
            let Range { start, end } = problem.key_blocks(rows.clone(), batch, bn);
            let own = |group: u32| {
                let first = rows.start + group * GROUP_ROWS;
                problem.key_blocks(first..(first + GROUP_ROWS).min(rows.end), batch, bn).end
            };
            let passed = |group: u32| own(group).clamp((start + 1).min(end), end) - start;
            (0..groups).map(|group| u64::from(passed(group))).sum()
        };
        tiles_of(problem.sequences.lengths(batch)[0], instance.bm).map(of_tile).sum()
    };
    let blocks: u64 = (0..problem.sequences.batch()).map(blocks).sum();
    let scores = blocks as f64 * f64::from(GROUP_ROWS) * f64::from(bn);
    if groups > 2 { scores / THREE_GROUPS } else { scores }
}

/// Picks the kernel with the fewest columns that hold a head: TMA fills the others with zeros, which the tensor cores
/// multiply too. Among these, the one that computes its blocks of scores in the least time.
fn pick_tiles(attention: &Attention, problem: &AttentionProblem) -> Result<Pick, AttentionError> {
    let table = attention.instances;
    let fitting = || table.iter().enumerate().filter(|(_, instance)| fits(instance, problem));
    let Some(columns) = fitting().map(|(_, instance)| instance.head_dim).min() else {
        return Err(AttentionError::NoInstance {
            dtype: problem.dtype.name(),
            dim: problem.heads.dim,
            packed: match problem.sequences {
                Sequences::Packed { .. } => " of packed sequences",
                Sequences::Cache { .. } | Sequences::Paged { .. } => " of a cache",
                Sequences::Equal { .. } => "",
            },
            softcap: if problem.softcap.is_some() { " with a soft-cap" } else { "" },
            window: if problem.mask.left.is_some() { " with a left window" } else { "" },
            count: attention.kernels().count(),
            have: tables_in_words(table, attention.decode),
        });
    };
    let dim = problem.heads.dim;
    let mut best: Vec<_> = fitting()
        .filter(|(_, instance)| instance.head_dim == columns)
        .map(|(index, instance)| (index, instance, cost(instance, problem)))
        .collect();
    best.sort_by(|(_, _, a), (_, _, b)| a.total_cmp(b));
    let (index, instance, least) = best[0];
    let mut why = if columns == dim {
        format!("its head dim is {dim}")
    } else {
        format!("of the kernels for head dim {dim}, it has the fewest columns, {columns}")
    };
    if let Some((_, other, more)) = best.get(1) {
        let tile = |i: &Instance| format!("{} x {}", i.bm, i.bn);
        let factor = if least > 0.0 { more / least } else { 1.0 };
        let (this, that) = (tile(instance), tile(other));
        let _ = write!(
            why,
            "; tiles of {that} are expected to take {factor:.2} times as long as those of {this}"
        );
    }
    Ok(Pick { kernel: AttentionKernel::Tiles(instance), index, why })
}

fn tables_in_words(table: &[Instance], decode: &[DecodeInstance]) -> String {
    // A kernel with windows also computes what one without them does.
    let covered = |i: &Instance| {
        let with = in_words(&Instance { windows: true, ..*i });
        !i.windows && table.iter().any(|other| in_words(other) == with)
    };
    let tiles = table.iter().filter(|i| !covered(i)).map(in_words);
    let mut kinds: Vec<String> = tiles.chain(decode.iter().map(split_in_words)).collect();
    kinds.sort();
    kinds.dedup();
    if kinds.is_empty() { "nothing".into() } else { kinds.join(", ") }
}

/// What an instance computes.
fn in_words(instance: &Instance) -> String {
    let packed = if instance.packed { " of packed sequences" } else { "" };
    let cap = if instance.soft_cap { " with a soft-cap" } else { "" };
    let window = if instance.windows { "" } else { " without a left window" };
    format!("{} head dim {}{packed}{cap}{window}", instance.dtype.name(), instance.head_dim)
}

fn split_in_words(instance: &DecodeInstance) -> String {
    let (dtype, dim, bn) = (instance.dtype.name(), instance.head_dim, instance.bn);
    let cap = if instance.soft_cap { "" } else { " without a soft-cap" };
    format!(
        "{dtype} head dim {dim} of few queries and caches, in pages of multiples of {bn} rows{cap}"
    )
}
