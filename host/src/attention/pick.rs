//! The choice of the kernel.

use super::error::AttentionError;
use super::problem::AttentionProblem;
use gpu_kernels::attention::Instance;

/// A row of the table, and why it was chosen.
pub(super) struct Pick {
    pub index: usize,
    pub why: String,
}

/// Whether an instance computes a problem.
pub(super) fn fits(instance: &Instance, problem: &AttentionProblem) -> bool {
    let same = (instance.dtype, instance.soft_cap) == (problem.dtype, problem.softcap.is_some());
    same && instance.head_dim >= problem.heads.dim
}

/// Picks the kernel with the fewest columns that hold a head: TMA fills the others with zeros, which the tensor cores
/// multiply too. Among equals, the first of the table.
pub(super) fn pick(table: &[Instance], problem: &AttentionProblem) -> Result<Pick, AttentionError> {
    let fitting = || table.iter().enumerate().filter(|(_, instance)| fits(instance, problem));
    let Some((index, best)) = fitting().min_by_key(|(_, instance)| instance.head_dim) else {
        return Err(AttentionError::NoInstance {
            dtype: problem.dtype.name(),
            dim: problem.heads.dim,
            softcap: if problem.softcap.is_some() { " with a soft-cap" } else { "" },
            count: table.len(),
            have: table_in_words(table),
        });
    };
    let dim = problem.heads.dim;
    let columns = match best.head_dim {
        exact if exact == dim => format!("its head dim is {dim}"),
        columns => {
            format!("of the kernels for head dim {dim}, it has the fewest columns, {columns}")
        }
    };
    Ok(Pick { index, why: columns })
}

fn table_in_words(table: &[Instance]) -> String {
    let mut kinds: Vec<String> = table.iter().map(in_words).collect();
    kinds.sort();
    kinds.dedup();
    if kinds.is_empty() { "nothing".into() } else { kinds.join(", ") }
}

/// What an instance computes.
pub(super) fn in_words(instance: &Instance) -> String {
    let cap = if instance.soft_cap { " with a soft-cap" } else { "" };
    format!("{} head dim {}{cap}", instance.dtype.name(), instance.head_dim)
}
