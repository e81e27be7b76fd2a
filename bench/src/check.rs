//! Whether a result is the product, in a fraction of a second for any size.
//!
//! Two comparisons with f64, which together see what the full one would:
//! - [`Sampled`]: single elements where some rows and columns cross, the first and the last among
//!   them. A wrong element at an edge shows.
//! - [`Projected`]: all of D at once (Freivalds). With signs x, D x is compared with A (B^T x), row
//!   for row; for a wide D, its columns likewise. Rounding errors of a row's elements add up as the
//!   elements themselves do, so the relative error stays that of D; a tile that is missing, twice
//!   there or in another's place adds as much as its elements are.

use half::{bf16, f16};
use host::gemm::GemmProblem;
use host::reference::{Check, Product, sample};
use host::{Dtype, Error, data};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rayon::prelude::*;
use serde::Serialize;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A matrix whose rows can be had as f32.
pub trait Values: Sync {
    /// Writes row `row` to the first elements of `out`.
    fn row(&self, row: usize, out: &mut [f32]);
}

/// A row's error may be this many times the whole result's: with a deviation of less than half the
/// bound each, none of a million rows is that far off by rounding.
const WORST_ROW: f64 = 4.0;

/// A result compared with its product.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ResultCheck {
    /// Elements where sampled rows and columns cross.
    pub sampled: Check,
    /// All elements, summed with random signs.
    pub projected: Projected,
}

/// Sums of D's elements against sums of the product's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Projected {
    /// Sums compared: M or N, whichever is larger.
    pub sums: u64,
    /// Root mean square of the differences over the expected one of the sums.
    pub relative_error: f64,
    /// The largest difference over the same.
    pub worst: f64,
}

impl ResultCheck {
    /// Whether all errors are as small as rounding to the result's type makes them, `bound` being
    /// the largest relative Frobenius error.
    pub fn below(&self, bound: f64) -> bool {
        let Projected { relative_error, worst, .. } = self.projected;
        self.sampled.below(bound) && relative_error < bound && worst < WORST_ROW * bound
    }

    /// The number to compare with the bound.
    pub fn error(&self) -> f64 {
        let Projected { relative_error, worst, .. } = self.projected;
        [relative_error, worst / WORST_ROW].into_iter().fold(self.sampled.relative_error, |a, b| {
            // NaN stays: a result that is no number has no small error.
            if a > b || a.is_nan() { a } else { b }
        })
    }
}

impl std::fmt::Display for ResultCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { sampled, projected } = self;
        write!(
            f,
            "relative Frobenius error {:.3e} of {} sampled elements, {:.3e} of {} sums over all {}",
            sampled.relative_error,
            sampled.compared,
            projected.relative_error,
            projected.sums,
            sampled.elements
        )
    }
}

/// Compares `d`, the bytes of D as `problem` has them, with the product of standard normal operands.
///
/// # Errors
/// [`Error::OperandSize`] if `d` is not D.
pub fn check(
    problem: &GemmProblem,
    a: &impl Values,
    b: &impl Values,
    d: &[u8],
) -> Result<ResultCheck, Error> {
    problem.check_size('D', d.len() as u64)?;
    let sampled = sampled(problem, a, b, d)?;
    let projected =
        if problem.m >= problem.n { along_n(problem, a, b, d) } else { along_m(problem, a, b, d) };
    Ok(ResultCheck { sampled, projected })
}

fn sampled(
    problem: &GemmProblem,
    a: &impl Values,
    b: &impl Values,
    d: &[u8],
) -> Result<Check, Error> {
    let (n, k) = (problem.n as usize, problem.k as usize);
    let (rows, cols) = (sample(problem.m as usize, 1), sample(n, 2));
    let gather = |from: &dyn Values, rows: &[usize]| {
        let mut values = vec![0.0; rows.len() * k];
        for (row, out) in rows.iter().zip(values.chunks_exact_mut(k.max(1))) {
            from.row(*row, out);
        }
        values
    };
    let (a, b) = (gather(a, &rows), gather(b, &cols));
    let size = problem.out.size();
    let crossings: Vec<u8> = rows
        .iter()
        .flat_map(|row| cols.iter().map(move |col| (row * n + col) * size))
        .flat_map(|at| d[at..at + size].iter().copied())
        .collect();
    let d = data::decode(&crossings, problem.out)?;
    let (m, n) = (rows.len(), cols.len());
    let product = Product { m, n, k, a: &a, b: &b, c: None, alpha: 1.0, beta: 0.0 };
    let check = product.check_up_to(&d, u128::MAX)?;
    let elements = problem.m * problem.n;
    Ok(Check { elements, sampled: check.compared < elements, ..check })
}

/// D x against A (B^T x).
fn along_n(problem: &GemmProblem, a: &impl Values, b: &impl Values, d: &[u8]) -> Projected {
    let (m, n, k) = (problem.m as usize, problem.n as usize, problem.k as usize);
    let x = signs(n);
    let want = dots(m, &signed_sum(k, &x, |row, out| b.row(row, out)), |row, out| a.row(row, out));
    let have = dots(m, &x, rows_of(d, problem.out, n));
    projected(&have, &want, (n * k) as f64)
}

/// x^T D against (x^T A) B^T: of a D with few rows, whose sums along N would be few.
fn along_m(problem: &GemmProblem, a: &impl Values, b: &impl Values, d: &[u8]) -> Projected {
    let (m, n, k) = (problem.m as usize, problem.n as usize, problem.k as usize);
    let x = signs(m);
    let want = dots(n, &signed_sum(k, &x, |row, out| a.row(row, out)), |row, out| b.row(row, out));
    let have = signed_sum(n, &x, rows_of(d, problem.out, n));
    projected(&have, &want, (m * k) as f64)
}

/// `variance` is that of a sum: of `terms` products of standard normal numbers each.
fn projected(have: &[f64], want: &[f64], variance: f64) -> Projected {
    let (mut squares, mut worst) = (0.0, 0.0_f64);
    for difference in have.iter().zip(want).map(|(have, want)| (have - want).abs()) {
        squares += difference * difference;
        // The order keeps NaN, which `f64::max` drops.
        worst = if worst > difference || worst.is_nan() { worst } else { difference };
    }
    let scale = variance.sqrt().max(f64::MIN_POSITIVE);
    let relative_error = (squares / have.len().max(1) as f64).sqrt() / scale;
    Projected { sums: have.len() as u64, relative_error, worst: worst / scale }
}

/// The rows of a result as f32.
fn rows_of(d: &[u8], dtype: Dtype, cols: usize) -> impl Fn(usize, &mut [f32]) + Sync {
    move |row, out| {
        let bytes = &d[row * cols * dtype.size()..][..cols * dtype.size()];
        let pair = |b: &[u8]| [b[0], b[1]];
        match dtype {
            Dtype::Bf16 => out
                .iter_mut()
                .zip(bytes.chunks_exact(2))
                .for_each(|(x, b)| *x = bf16::from_le_bytes(pair(b)).to_f32()),
            Dtype::F16 => out
                .iter_mut()
                .zip(bytes.chunks_exact(2))
                .for_each(|(x, b)| *x = f16::from_le_bytes(pair(b)).to_f32()),
            _ => out
                .iter_mut()
                .zip(bytes.chunks_exact(4))
                .for_each(|(x, b)| *x = f32::from_le_bytes([b[0], b[1], b[2], b[3]])),
        }
    }
}

/// `len` random signs, the same each time.
fn signs(len: usize) -> Vec<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    (0..len).map(|_| if rng.next_u32() & 1 == 0 { 1.0 } else { -1.0 }).collect()
}

/// The sum of rows of `cols` elements, each with its sign.
fn signed_sum(cols: usize, signs: &[f64], row: impl Fn(usize, &mut [f32]) + Sync) -> Vec<f64> {
    let share = signs.len().div_ceil(4 * rayon::current_num_threads()).max(8);
    let parts: Vec<Vec<f64>> = signs
        .par_chunks(share)
        .enumerate()
        .map(|(i, signs)| {
            let (mut sum, mut values) = (vec![0.0; cols], vec![0.0; cols]);
            for (j, sign) in signs.iter().enumerate() {
                row(i * share + j, &mut values);
                sum.iter_mut().zip(&values).for_each(|(s, &v)| *s += sign * f64::from(v));
            }
            sum
        })
        .collect();
    let mut sum = vec![0.0; cols];
    for part in parts {
        sum.iter_mut().zip(part).for_each(|(s, p)| *s += p);
    }
    sum
}

/// The products of `rows` rows with `y`.
fn dots(rows: usize, y: &[f64], row: impl Fn(usize, &mut [f32]) + Sync) -> Vec<f64> {
    // Sums that don't wait for one another, so that they vectorise.
    const LANES: usize = 8;
    (0..rows)
        .into_par_iter()
        .map_init(
            || vec![0.0; y.len()],
            |values, i| {
                row(i, values);
                let mut lanes = [0.0; LANES];
                let (x, y) = (values.chunks_exact(LANES), y.chunks_exact(LANES));
                let rest: f64 =
                    x.remainder().iter().zip(y.remainder()).map(|(&x, y)| f64::from(x) * y).sum();
                for (x, y) in x.zip(y) {
                    for j in 0..LANES {
                        lanes[j] += f64::from(x[j]) * y[j];
                    }
                }
                lanes.iter().sum::<f64>() + rest
            },
        )
        .collect()
}

/// A number that two results share only if they are the same bits (but for one chance in 2^64).
pub fn fingerprint(bytes: &[u8]) -> u64 {
    let hash = |value: &dyn Fn(&mut DefaultHasher)| {
        let mut hasher = DefaultHasher::new();
        value(&mut hasher);
        hasher.finish()
    };
    let parts: Vec<u64> = bytes.par_chunks(1 << 20).map(|part| hash(&|h| part.hash(h))).collect();
    hash(&|h| parts.hash(h))
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::data::{encode, normal, rounded};

    struct Matrix(Vec<f32>, usize);

    impl Values for Matrix {
        fn row(&self, row: usize, out: &mut [f32]) {
            out[..self.1].copy_from_slice(&self.0[row * self.1..][..self.1]);
        }
    }

    /// The check of a product after `tamper`.
    fn checked(m: u64, n: u64, k: u64, out: Dtype, tamper: impl FnOnce(&mut [f32])) -> ResultCheck {
        let (rows, cols, depth) = (m as usize, n as usize, k as usize);
        let a = Matrix(rounded(&normal(1, rows * depth), Dtype::Bf16).unwrap(), depth);
        let b = Matrix(rounded(&normal(2, cols * depth), Dtype::Bf16).unwrap(), depth);
        let product = Product {
            m: rows,
            n: cols,
            k: depth,
            a: &a.0,
            b: &b.0,
            c: None,
            alpha: 1.0,
            beta: 0.0,
        };
        let mut d: Vec<f32> = product.compute().unwrap().iter().map(|&x| x as f32).collect();
        tamper(&mut d);
        let problem = GemmProblem { m, n, k, ab: Dtype::Bf16, out, beta_c: false };
        check(&problem, &a, &b, &encode(&d, out).unwrap()).unwrap()
    }

    const BOUNDS: [(Dtype, f64); 3] = [(Dtype::Bf16, 4e-3), (Dtype::F16, 5e-4), (Dtype::F32, 1e-6)];
    const SHAPES: [(u64, u64, u64); 5] =
        [(300, 200, 70), (200, 300, 64), (1, 500, 33), (500, 1, 8), (3, 5, 200)];

    #[test]
    fn a_rounded_product_passes_with_the_error_of_its_type() {
        for (m, n, k) in SHAPES {
            for (out, bound) in BOUNDS {
                let c = checked(m, n, k, out, |_| {});
                assert!(c.below(bound), "{m} {n} {k} {out:?}: {c:?}");
                assert!(c.error() < bound, "{c:?}");
            }
        }
        let c = checked(300, 200, 70, Dtype::Bf16, |_| {});
        // Both see the rounding: of 8 bits, uniform in half a unit.
        assert!(c.sampled.relative_error > 1e-3 && c.projected.relative_error > 1e-3, "{c:?}");
        assert_eq!((c.sampled.compared, c.projected.sums), (64 * 64, 300));
        assert!(c.sampled.sampled);
    }

    #[test]
    fn what_is_wrong_anywhere_shows() {
        type Tamper = fn(&mut [f32]);
        let wrong: [(&str, Tamper); 6] = [
            ("the last element", |d| d[d.len() - 1] += 30.0),
            ("an element in the middle", |d| d[123 * 200 + 77] = f32::NAN),
            ("no number", |d| d[150 * 200 + 3] = f32::INFINITY),
            ("eight columns of a row", |d| d[140 * 200 + 16..][..8].fill(0.0)),
            ("a tile that is zero", |d| {
                (128..192).for_each(|i| d[i * 200 + 64..][..64].fill(0.0));
            }),
            ("two rows exchanged", |d| (0..200).for_each(|j| d.swap(131 * 200 + j, 139 * 200 + j))),
        ];
        for (what, tamper) in wrong {
            let c = checked(300, 200, 70, Dtype::Bf16, tamper);
            assert!(!c.below(4e-3), "{what}: {c:?}");
            let error = c.error();
            assert!(error.is_nan() || error >= 4e-3, "{what}: {c:?}");
        }
        let c = checked(200, 300, 64, Dtype::Bf16, |d| {
            (64..128).for_each(|i| d[i * 300 + 128..][..8].fill(0.0));
        });
        assert!(!c.below(4e-3), "eight columns of a wide result: {c:?}");
    }

    #[test]
    fn fingerprints_tell_results_apart() {
        let mut bytes = vec![7; (5 << 20) + 3];
        let first = fingerprint(&bytes);
        assert_eq!(first, fingerprint(&bytes));
        *bytes.last_mut().unwrap() = 8;
        let second = fingerprint(&bytes);
        assert_ne!(first, second);
        bytes.swap(0, (5 << 20) + 2);
        assert_ne!(second, fingerprint(&bytes));
    }
}
