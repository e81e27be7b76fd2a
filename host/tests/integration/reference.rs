//! The reference product against sums written out, and the errors that it must see.

use host::data::normal;
use host::reference::Product;
use proptest::prelude::*;

fn naive(p: &Product<'_>) -> Vec<f64> {
    let mut d = vec![0.0; p.m * p.n];
    for i in 0..p.m {
        for j in 0..p.n {
            let dot: f64 =
                (0..p.k).map(|x| f64::from(p.a[i * p.k + x]) * f64::from(p.b[j * p.k + x])).sum();
            let c = p.c.map_or(0.0, |c| f64::from(c[i * p.n + j]));
            d[i * p.n + j] = f64::from(p.alpha) * dot + f64::from(p.beta) * c;
        }
    }
    d
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn it_is_the_sum_over_k(
        m in 0usize..20, n in 0usize..20, k in 0usize..1100, seed: u64, beta in -2f32..2.0,
    ) {
        let (a, b, c) = (normal(seed, m * k), normal(seed ^ 1, n * k), normal(seed ^ 2, m * n));
        let p = Product { m, n, k, a: &a, b: &b, c: Some(&c), alpha: 0.5, beta };
        let (have, want) = (p.compute().unwrap(), naive(&p));
        for (x, y) in have.iter().zip(&want) {
            prop_assert!((x - y).abs() <= 1e-10 * (1.0 + y.abs()), "{x} {y}");
        }
        let exact: Vec<f32> = want.iter().map(|&x| x as f32).collect();
        let check = p.check(&exact).unwrap();
        prop_assert!(check.below(1e-7), "{check}");
        prop_assert_eq!(check.compared, (m * n) as u64);
    }
}

#[test]
fn one_wrong_element_shows() {
    let (m, n, k) = (33, 40, 50);
    let (a, b) = (normal(1, m * k), normal(2, n * k));
    let p = Product { m, n, k, a: &a, b: &b, c: None, alpha: 1.0, beta: 0.0 };
    let right: Vec<f32> = p.compute().unwrap().iter().map(|&x| x as f32).collect();
    let norm = right.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
    let mut wrong = right.clone();
    wrong[17 * n + 39] += 1.0;
    let check = p.check(&wrong).unwrap();
    assert!((check.relative_error * norm - 1.0).abs() < 1e-5, "{check:?}");
    assert!((check.max_abs_error - 1.0).abs() < 1e-5, "{check:?}");

    wrong[0] = f32::NAN;
    let check = p.check(&wrong).unwrap();
    assert!(!check.below(1e9) && check.max_abs_error.is_nan(), "{check:?}");
    let zero = Product { alpha: 0.0, ..p };
    assert!(zero.check(&vec![0.0; m * n]).unwrap().below(f64::MIN_POSITIVE));
    assert!(!zero.check(&right).unwrap().below(1e9));
}

#[test]
fn a_sample_has_the_edges_and_whole_rows_and_columns() {
    let (m, n, k) = (200, 150, 8);
    let (a, b) = (normal(1, m * k), normal(2, n * k));
    let p = Product { m, n, k, a: &a, b: &b, c: None, alpha: 1.0, beta: 0.0 };
    let right: Vec<f32> = p.compute().unwrap().iter().map(|&x| x as f32).collect();
    let check = p.check_up_to(&right, 0).unwrap();
    assert!(check.sampled && check.below(1e-6), "{check}");
    assert_eq!(check.compared, 64 * (200 + 150));
    assert!(check.to_string().contains("22400 of 30000 elements"), "{check}");
    // Any element in the first or last row or column is among them; a whole wrong column is, too.
    for (row, col) in [(0, 77), (199, 3), (100, 0), (5, 149)] {
        let mut wrong = right.clone();
        wrong[row * n + col] += 100.0;
        assert!(!p.check_up_to(&wrong, 0).unwrap().below(1e-2), "({row}, {col})");
    }
    let mut wrong = right.clone();
    (0..m).for_each(|row| wrong[row * n + 71] = 0.0);
    assert!(!p.check_up_to(&wrong, 0).unwrap().below(1e-2));
}

#[test]
fn c_is_not_read_when_beta_is_zero() {
    let c = [f32::NAN];
    let p = Product { m: 1, n: 1, k: 1, a: &[2.0], b: &[3.0], c: Some(&c), alpha: 1.0, beta: 0.0 };
    assert_eq!(p.compute().unwrap(), [6.0]);
}

#[test]
fn slices_of_the_wrong_length_are_named() {
    let p =
        Product { m: 2, n: 2, k: 2, a: &[0.0; 4], b: &[0.0; 3], c: None, alpha: 1.0, beta: 0.0 };
    let said = p.compute().unwrap_err().to_string();
    assert_eq!(said, "GEMM operand B: 2 x 2 f32 need 16 bytes; the buffer has 12");
    let p = Product { b: &[0.0; 4], ..p };
    assert!(p.check(&[0.0; 5]).unwrap_err().to_string().contains("operand D: 2 x 2"));
}
