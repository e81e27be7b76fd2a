//! Attention in f64, and the error of a result with the bound that follows from how a kernel computes.

use super::limits::{Limits, Seen, Spread};
use super::{Check, FULL, SAMPLES, larger};
use crate::attention::{AttentionError, AttentionProblem, Operand, Sequences};
use crate::error::Error;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rayon::prelude::*;
use serde::Serialize;
use std::fmt;
use std::ops::Range;

/// Rows of Q that are computed together, so that a key is converted to f64 once for all.
const ROWS: usize = 16;

/// Attention with the values of its operands, laid out as the problem says. Pages are gathered before
/// ([`gather_pages`](super::gather_pages)).
#[derive(Clone, Copy)]
pub struct Attention<'a> {
    /// Sizes, mask and layouts.
    pub problem: &'a AttentionProblem,
    /// Q.
    pub q: &'a [f32],
    /// K.
    pub k: &'a [f32],
    /// V.
    pub v: &'a [f32],
}

/// The error of a result against the reference.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct AttentionCheck {
    /// Comparison of O.
    #[serde(flatten)]
    pub o: Check,
    /// Limit of the relative error of O: twice the root mean square that rounding should give.
    pub bound: f64,
    /// Largest error of an element of O, relative to what rounding can give at most. It must be at most 1.
    pub worst: f64,
    /// Largest error of LSE, relative to what rounding can give at most, if there is an LSE. It must be at most 1.
    pub worst_lse: Option<f64>,
    /// Whether all errors are within their limits.
    pub passed: bool,
}

impl fmt::Display for AttentionCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { o, bound, worst, .. } = self;
        write!(f, "{o}, bound {bound:.1e}; worst element at {worst:.2} of its limit")?;
        match self.worst_lse {
            Some(lse) => write!(f, ", worst LSE at {lse:.2} of its limit"),
            None => Ok(()),
        }
    }
}

/// Queries of one head of one sequence.
struct Part {
    batch: u32,
    head: u32,
    rows: Vec<u32>,
}

/// A row of the result.
#[derive(Clone)]
struct Row {
    keys: Range<u32>,
    /// Q, then unused.
    q: Vec<f64>,
    /// Scores, then their exponentials, of the visible keys.
    p: Vec<f64>,
    o: Vec<f64>,
    lse: f64,
    /// Largest `|k|` of the visible keys.
    k_norm: f64,
    limits: Limits,
}

/// What some rows add to a comparison.
#[derive(Clone, Copy, Default)]
struct Sums {
    difference: f64,
    reference: f64,
    expected: f64,
    max: f64,
    worst: f64,
    worst_lse: f64,
}

impl Attention<'_> {
    /// Computes O and LSE, laid out as the problem says. Elements of O's gaps are 0.
    ///
    /// # Errors
    /// [`AttentionError`] for a problem that can't be computed, and for slices that are too short.
    pub fn compute(&self) -> Result<(Vec<f64>, Vec<f64>), Error> {
        let problem = self.problem;
        self.check_inputs()?;
        let span = |operand| problem.span(operand).unwrap_or(0) as usize;
        let (mut o, mut lse) = (vec![0.0; span(Operand::O)], vec![0.0; span(Operand::Lse)]);
        let dim = problem.heads.dim as usize;
        let parts = self.all_rows();
        let done: Vec<_> = parts.par_iter().map(|part| self.rows(part)).collect();
        for (part, rows) in parts.iter().zip(done) {
            for (&i, row) in part.rows.iter().zip(&rows) {
                o[self.at(Operand::O, part, i)..][..dim].copy_from_slice(&row.o);
                lse[self.at(Operand::Lse, part, i)] = row.lse;
            }
        }
        Ok((o, lse))
    }

    /// Compares O, and LSE if it is given, with the reference. Beyond [`FULL`] multiplications, rows of Q are
    /// sampled: at random, but evenly over heads and sequences, with the first and the last one.
    ///
    /// # Errors
    /// The errors of [`Attention::compute`].
    pub fn check(&self, o: &[f32], lse: Option<&[f32]>) -> Result<AttentionCheck, Error> {
        self.check_up_to(o, lse, FULL)
    }

    /// [`Attention::check`] that samples above `full` multiplications.
    ///
    /// # Errors
    /// The errors of [`Attention::compute`].
    pub fn check_up_to(
        &self,
        o: &[f32],
        lse: Option<&[f32]>,
        full: u128,
    ) -> Result<AttentionCheck, Error> {
        self.check_inputs()?;
        self.check_length(Operand::O, o)?;
        lse.map_or(Ok(()), |lse| self.check_length(Operand::Lse, lse))?;
        let all = self.row_count();
        let multiplications = (self.problem.flops() / 2.0) as u128;
        let sampled = multiplications > full;
        let parts = if sampled {
            let each = (multiplications / u128::from(all)).max(1);
            self.sampled_rows(((full / each) as u64).clamp(SAMPLES as u64, all))
        } else {
            self.all_rows()
        };
        let sums: Vec<Sums> = parts.par_iter().map(|part| self.compare(part, o, lse)).collect();
        // The parts are added in order, so that the sum does not depend on the threads.
        let s = sums.iter().fold(Sums::default(), Sums::with);
        let norm = s.reference.sqrt();
        let compared: u64 = parts.iter().map(|part| part.rows.len() as u64).sum();
        let dim = u64::from(self.problem.heads.dim);
        let check = Check {
            relative_error: if s.difference == 0.0 { 0.0 } else { s.difference.sqrt() / norm },
            max_abs_error: s.max,
            compared: compared * dim,
            elements: all * dim,
            sampled,
        };
        let bound = if norm > 0.0 { 2.0 * s.expected.sqrt() / norm } else { 0.0 };
        let worst_lse = lse.map(|_| s.worst_lse);
        let within = check.relative_error <= bound && s.worst <= 1.0;
        let passed = within && worst_lse.is_none_or(|worst| worst <= 1.0);
        Ok(AttentionCheck { o: check, bound, worst: s.worst, worst_lse, passed })
    }

    fn check_inputs(&self) -> Result<(), Error> {
        self.problem.check()?;
        if matches!(self.problem.sequences, Sequences::Paged { .. }) {
            return Err(AttentionError::BlockTable { planned: "with", bound: "without" }.into());
        }
        self.check_length(Operand::Q, self.q)?;
        self.check_length(Operand::K, self.k)?;
        self.check_length(Operand::V, self.v)
    }

    fn check_length(&self, operand: Operand, values: &[f32]) -> Result<(), Error> {
        let (need, have) = (self.problem.span(operand).unwrap_or(u64::MAX), values.len() as u64);
        if have < need {
            return Err(AttentionError::Elements { operand, need, have }.into());
        }
        Ok(())
    }

    /// The element where a row of a tensor begins.
    fn at(&self, operand: Operand, part: &Part, row: u32) -> usize {
        let (batch, [q, _]) = self.problem.sequences.first_rows(part.batch);
        self.problem.strides(operand).at(batch, part.head, q + row) as usize
    }

    /// Rows of Q of all heads.
    fn row_count(&self) -> u64 {
        let queries = (0..self.problem.sequences.batch())
            .map(|batch| u64::from(self.problem.sequences.lengths(batch)[0]))
            .sum::<u64>();
        queries * u64::from(self.problem.heads.q)
    }

    fn all_rows(&self) -> Vec<Part> {
        let mut parts = Vec::new();
        for batch in 0..self.problem.sequences.batch() {
            let [queries, _] = self.problem.sequences.lengths(batch);
            for head in 0..self.problem.heads.q {
                for first in (0..queries).step_by(ROWS) {
                    let rows = (first..queries.min(first + ROWS as u32)).collect();
                    parts.push(Part { batch, head, rows });
                }
            }
        }
        parts
    }

    /// `count` rows: one at random of each part of equal length of all rows.
    fn sampled_rows(&self, count: u64) -> Vec<Part> {
        let all = self.row_count();
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let edge = |i: u64| (u128::from(i) * u128::from(all) / u128::from(count)) as u64;
        let chosen = (0..count).map(|i| match i {
            0 => 0,
            _ if i + 1 == count => all - 1,
            _ => edge(i) + rng.next_u64() % (edge(i + 1) - edge(i)),
        });
        let mut parts: Vec<Part> = Vec::new();
        let (mut batch, mut before) = (0, 0);
        for row in chosen {
            let mut queries = self.problem.sequences.lengths(batch)[0];
            while row >= before + u64::from(queries) * u64::from(self.problem.heads.q) {
                before += u64::from(queries) * u64::from(self.problem.heads.q);
                batch += 1;
                queries = self.problem.sequences.lengths(batch)[0];
            }
            let within = row - before;
            let (head, row) = (within / u64::from(queries), within % u64::from(queries));
            match parts.last_mut() {
                Some(part)
                    if (part.batch, u64::from(part.head)) == (batch, head)
                        && part.rows.len() < ROWS =>
                {
                    part.rows.push(row as u32);
                }
                _ => parts.push(Part { batch, head: head as u32, rows: vec![row as u32] }),
            }
        }
        parts
    }

    /// Computes some rows.
    fn rows(&self, part: &Part) -> Vec<Row> {
        let (problem, dim) = (self.problem, self.problem.heads.dim as usize);
        let [queries, keys] = problem.sequences.lengths(part.batch);
        let (batch, [_, first_key]) = problem.sequences.first_rows(part.batch);
        let head = problem.heads.kv_of(part.head);
        let key = |values: &[f32], operand, j: u32, to: &mut [f64]| {
            let at = problem.strides(operand).at(batch, head, first_key + j) as usize;
            for (to, &x) in to.iter_mut().zip(&values[at..at + dim]) {
                *to = f64::from(x);
            }
        };
        let mut rows: Vec<Row> = part
            .rows
            .iter()
            .map(|&i| {
                let q = &self.q[self.at(Operand::Q, part, i)..][..dim];
                let keys = problem.mask.keys(i, queries, keys);
                Row::new(keys, q.iter().map(|&x| f64::from(x)).collect())
            })
            .collect();
        let seen = |rows: &[Row]| {
            let some = || rows.iter().filter(|row| !row.keys.is_empty());
            let start = some().map(|row| row.keys.start).min().unwrap_or(0);
            start..some().map(|row| row.keys.end).max().unwrap_or(0)
        };
        let scale = f64::from(problem.scale());
        let mut one = vec![0.0; dim];
        for j in seen(&rows) {
            key(self.k, Operand::K, j, &mut one);
            let norm = dot(&one, &one).sqrt();
            for row in rows.iter_mut().filter(|row| row.keys.contains(&j)) {
                row.p.push(scale * dot(&row.q, &one));
                row.k_norm = row.k_norm.max(norm);
            }
        }
        for row in &mut rows {
            row.softmax(problem);
        }
        let mut spreads = vec![Spread::default(); rows.len()];
        for j in seen(&rows) {
            key(self.v, Operand::V, j, &mut one);
            let (square, most) =
                (dot(&one, &one), one.iter().fold(0.0, |m: f64, x| m.max(x.abs())));
            for (row, spread) in rows.iter_mut().zip(&mut spreads) {
                if !row.keys.contains(&j) {
                    continue;
                }
                let p = row.p[(j - row.keys.start) as usize];
                row.o.iter_mut().zip(&one).for_each(|(o, v)| *o += p * v);
                // The score, after the soft-cap, which alone has an error that depends on it.
                let s = if problem.softcap.is_some() && p > 0.0 { p.ln() + row.lse } else { 0.0 };
                spread.squares += p * p * square;
                spread.absolute += p * most;
                spread.scored_squares += s * s * p * p * square;
                spread.scored_absolute += s.abs() * p * most;
                spread.most = spread.most.max(most);
            }
        }
        for (row, spread) in rows.iter_mut().zip(spreads) {
            if !row.keys.is_empty() {
                let keys = row.keys.len() as f64;
                let largest = row.p.iter().copied().fold(0.0, f64::max);
                let size = f64::from(problem.scale()) * dot(&row.q, &row.q).sqrt() * row.k_norm;
                let norm = dot(&row.o, &row.o);
                let lse = row.lse;
                row.limits = Limits::new(problem, spread, &Seen { keys, largest, size, norm, lse });
            }
            // The rows of a whole problem would take more memory than its operands.
            row.p = Vec::new();
        }
        rows
    }

    fn compare(&self, part: &Part, o: &[f32], lse: Option<&[f32]>) -> Sums {
        let mut s = Sums::default();
        for (&i, row) in part.rows.iter().zip(self.rows(part)) {
            let limits = row.limits;
            s.expected += limits.squares;
            let have = &o[self.at(Operand::O, part, i)..][..row.o.len()];
            for (&have, &want) in have.iter().zip(&row.o) {
                let difference = f64::from(have) - want;
                s.difference += difference * difference;
                s.reference += want * want;
                s.max = larger(s.max, difference.abs());
                let limit = limits.element + limits.rounding * want.abs();
                s.worst = larger(s.worst, relative(difference, limit));
            }
            if let Some(lse) = lse {
                let have = f64::from(lse[self.at(Operand::Lse, part, i)]);
                // Both are -inf where no key is seen.
                let same = have.total_cmp(&row.lse).is_eq();
                let difference = if same { 0.0 } else { have - row.lse };
                s.worst_lse = larger(s.worst_lse, relative(difference, limits.lse));
            }
        }
        s
    }
}

impl Row {
    fn new(keys: Range<u32>, q: Vec<f64>) -> Self {
        let (p, o) = (Vec::with_capacity(keys.len()), vec![0.0; q.len()]);
        let limits = Limits::default();
        Self { keys, q, p, o, lse: f64::NEG_INFINITY, k_norm: 0.0, limits }
    }

    /// Turns scores into P / l.
    fn softmax(&mut self, problem: &AttentionProblem) {
        if let Some(cap) = problem.softcap.map(f64::from) {
            self.p.iter_mut().for_each(|s| *s = cap * (*s / cap).tanh());
        }
        let max = self.p.iter().copied().fold(f64::NEG_INFINITY, larger);
        if self.p.is_empty() {
            return;
        }
        self.p.iter_mut().for_each(|s| *s = (*s - max).exp());
        let sum: f64 = self.p.iter().sum();
        self.lse = max + sum.ln();
        self.p.iter_mut().for_each(|p| *p /= sum);
    }
}

impl Sums {
    fn with(self, other: &Self) -> Self {
        Self {
            difference: self.difference + other.difference,
            reference: self.reference + other.reference,
            expected: self.expected + other.expected,
            max: larger(self.max, other.max),
            worst: larger(self.worst, other.worst),
            worst_lse: larger(self.worst_lse, other.worst_lse),
        }
    }
}

/// `|difference| / limit`; 0 where there is no difference, whatever the limit is.
fn relative(difference: f64, limit: f64) -> f64 {
    if difference == 0.0 { 0.0 } else { difference.abs() / limit }
}

/// The sum of the products, in eight lanes, so that the loop vectorises.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let ((a, rest_a), (b, rest_b)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let mut lanes = [0.0; 8];
    for (a, b) in a.iter().zip(b) {
        for (lane, (a, b)) in lanes.iter_mut().zip(a.iter().zip(b)) {
            *lane += a * b;
        }
    }
    let rest: f64 = rest_a.iter().zip(rest_b).map(|(a, b)| a * b).sum();
    lanes.iter().sum::<f64>() + rest
}
