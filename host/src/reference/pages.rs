//! Caches in pages, for the reference.

use crate::attention::{AttentionError, AttentionProblem, Operand, Sequences};
use crate::error::Error;

/// A problem with a cache in pages as one with a cache that is not: K and V with the rows that the block table names,
/// one behind the other, and zeros for pages that do not exist.
pub struct Gathered {
    /// The problem, with a [`Sequences::Cache`].
    pub problem: AttentionProblem,
    /// K.
    pub k: Vec<f32>,
    /// V.
    pub v: Vec<f32>,
}

/// Gathers the pages of `k` and `v`, whose numbers are `block_table`, `[batch, sequence_pages]`.
///
/// # Errors
/// [`AttentionError`] for a problem that can't be computed or has no pages, and for slices that are too short.
pub fn gather_pages(
    problem: &AttentionProblem,
    block_table: &[u32],
    k: &[f32],
    v: &[f32],
) -> Result<Gathered, Error> {
    problem.check()?;
    let Sequences::Paged { q, keys, page_rows, sequence_pages, .. } = &problem.sequences else {
        return Err(AttentionError::BlockTable { planned: "without", bound: "with" }.into());
    };
    let need = problem.span(Operand::BlockTable).unwrap_or(u64::MAX);
    let have = block_table.len() as u64;
    if have < need {
        return Err(AttentionError::Elements { operand: Operand::BlockTable, need, have }.into());
    }
    let capacity = page_rows.saturating_mul(*sequence_pages);
    let sequences = Sequences::Cache { q: *q, keys: keys.clone(), capacity };
    let plain = AttentionProblem::bshd(problem.dtype, problem.heads, sequences);
    let gathered =
        AttentionProblem { k: plain.k, v: plain.v, sequences: plain.sequences, ..problem.clone() };
    gathered.check()?;
    let gather = |operand: Operand, values: &[f32]| {
        let (from, to) = (problem.strides(operand), gathered.strides(operand));
        let [pages, heads, rows, dim] = problem.sizes(operand);
        let need = problem.span(operand).unwrap_or(u64::MAX);
        if (values.len() as u64) < need {
            return Err(AttentionError::Elements { operand, need, have: values.len() as u64 });
        }
        let mut all = vec![0.0; gathered.span(operand).unwrap_or(0) as usize];
        for (at, &page) in
            block_table.iter().enumerate().filter(|(_, page)| u64::from(**page) < pages)
        {
            let (batch, index) = (at as u32 / sequence_pages, at as u32 % sequence_pages);
            for head in 0..heads as u32 {
                for row in 0..rows as u32 {
                    let from = from.at(page, head, row) as usize;
                    let to = to.at(batch, head, index * page_rows + row) as usize;
                    all[to..to + dim as usize].copy_from_slice(&values[from..from + dim as usize]);
                }
            }
        }
        Ok(all)
    };
    let (k, v) = (gather(Operand::K, k)?, gather(Operand::V, v)?);
    Ok(Gathered { problem: gathered, k, v })
}
