//! Checks a result against the product in f64, in a fraction of a second for any size.
//!
//! Two comparisons together find the errors that a full comparison would find:
//! - Sampled elements ([`ResultCheck::sampled`]): the elements where sampled rows and columns cross. The
//!   first and the last row and column are among them, so a wrong element at an edge is found.
//! - Projected sums ([`Projected`]): all of D at once, by Freivalds' algorithm. With a vector x of random
//!   signs, D x is compared with A (B^T x), row by row; for a wide D, x^T D with (x^T A) B^T. Rounding
//!   errors add up as the elements do, so the relative error is that of D. A tile that is missing, added
//!   twice or exchanged with another one causes an error as large as its elements.

use half::{bf16, f16};
use host::gemm::GemmProblem;
use host::reference::{Check, Product, sample};
use host::{Dtype, Error, data};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rayon::prelude::*;
use serde::Serialize;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A matrix with rows that can be read as f32.
pub trait Values: Sync {
    /// Writes row `row` to the first elements of `out`.
    fn row(&self, row: usize, out: &mut [f32]);
}

/// The error of one row may be this many times the bound for the whole result. Where each row's standard
/// deviation is less than half the bound, rounding puts none of a million rows beyond this.
const WORST_ROW: f64 = 4.0;

/// A result compared with its product.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ResultCheck {
    /// Comparison of the elements where sampled rows and columns cross.
    pub sampled: Check,
    /// Comparison of sums over all elements with random signs.
    pub projected: Projected,
}

/// Comparison of signed sums of D's elements with those of the product.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Projected {
    /// Number of sums: M or N, whichever is larger.
    pub sums: u64,
    /// Root mean square of the differences, divided by the expected root mean square of the sums.
    pub relative_error: f64,
    /// The largest difference, divided by the same. Where the sum itself is more than four times that, as one large element
    /// may be, the difference is divided by a quarter of the sum.
    pub worst: f64,
}

impl ResultCheck {
    /// Whether all errors can come from rounding to the result's type. `bound` is the limit of the
    /// relative Frobenius error.
    pub fn below(&self, bound: f64) -> bool {
        let Projected { relative_error, worst, .. } = self.projected;
        self.sampled.below(bound) && relative_error < bound && worst < WORST_ROW * bound
    }

    /// The largest error, to be compared with the bound.
    pub fn error(&self) -> f64 {
        let Projected { relative_error, worst, .. } = self.projected;
        [relative_error, worst / WORST_ROW].into_iter().fold(self.sampled.relative_error, |a, b| {
            // NaN must not be dropped: it is not a small error.
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

/// Compares `d`, the bytes of D, with the product of standard normal operands.
///
/// # Errors
/// [`Error::OperandSize`] if `d` does not have the size of D.
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

/// Compares D x with A (B^T x).
fn along_n(problem: &GemmProblem, a: &impl Values, b: &impl Values, d: &[u8]) -> Projected {
    let (m, n, k) = (problem.m as usize, problem.n as usize, problem.k as usize);
    let x = signs(n);
    let want = dots(m, &signed_sum(k, &x, |row, out| b.row(row, out)), |row, out| a.row(row, out));
    let have = dots(m, &x, rows_of(d, problem.out, n));
    projected(&have, &want, (n * k) as f64)
}

/// Compares x^T D with (x^T A) B^T. A D with few rows has more sums this way.
fn along_m(problem: &GemmProblem, a: &impl Values, b: &impl Values, d: &[u8]) -> Projected {
    let (m, n, k) = (problem.m as usize, problem.n as usize, problem.k as usize);
    let x = signs(m);
    let want = dots(n, &signed_sum(k, &x, |row, out| a.row(row, out)), |row, out| b.row(row, out));
    let have = signed_sum(n, &x, rows_of(d, problem.out, n));
    projected(&have, &want, (m * k) as f64)
}

/// Compares sums. `variance` is the expected variance of a sum.
fn projected(have: &[f64], want: &[f64], variance: f64) -> Projected {
    let scale = variance.sqrt().max(f64::MIN_POSITIVE);
    let (mut squares, mut worst) = (0.0, 0.0_f64);
    for (have, want) in have.iter().zip(want) {
        let difference = (have - want).abs();
        squares += difference * difference;
        let of_this = difference / scale.max(want.abs() / WORST_ROW);
        // This order keeps NaN; `f64::max` would drop it.
        worst = if worst > of_this || worst.is_nan() { worst } else { of_this };
    }
    let relative_error = (squares / have.len().max(1) as f64).sqrt() / scale;
    Projected { sums: have.len() as u64, relative_error, worst }
}

/// Reads the rows of a result as f32.
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

/// `len` random signs from a fixed seed.
fn signs(len: usize) -> Vec<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    (0..len).map(|_| if rng.next_u32() & 1 == 0 { 1.0 } else { -1.0 }).collect()
}

/// The sum of all rows of `cols` elements, each multiplied by its sign.
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

/// The dot products of `rows` rows with `y`.
fn dots(rows: usize, y: &[f64], row: impl Fn(usize, &mut [f32]) + Sync) -> Vec<f64> {
    // Independent sums, so that the loop vectorises.
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

/// A 64-bit hash of a result's bits.
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

    /// With a D of one row a sum is one element, and one of 20,000 may be large: 128.49 is rounded to 128. Nobody may be that
    /// wrong about a small one.
    #[test]
    fn a_large_element_may_be_rounded_by_more() {
        let of = |want: f64| {
            projected(
                &[vec![28.0; 20_000], vec![want - 0.49]].concat(),
                &[vec![28.0; 20_000], vec![want]].concat(),
                808.0,
            )
        };
        assert!(of(128.49).worst < WORST_ROW * 4e-3, "{:?}", of(128.49));
        assert!(of(100.0).worst > WORST_ROW * 4e-3, "{:?}", of(100.0));
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
