//! A small network that compares candidates whose predicted times are near one another.
//!
//! The terms of a prediction are right to about 5 %, and many kernels come within twice that of the fastest one. What decides among
//! them is the sum of many small effects. The network has learned it from the records in docs/data/records, as a regression that
//! `bench/network/train.py` fits: one hidden layer of ReLU units.

mod weights;

use weights::{BIASES, HIDDEN, OUTPUT, WEIGHTS};

/// Numbers that the network is told of a candidate.
pub const FEATURES: usize = 50;

/// Cells whose sums are in registers at the same time.
const BLOCK: usize = 32;

/// How much longer a candidate takes than its terms say, as ln(factor), apart from a constant that all candidates of a product
/// share.
pub(super) fn network(features: &[f32; FEATURES]) -> f32 {
    const { assert!(HIDDEN.is_multiple_of(BLOCK)) };
    let of_features: &[[f32; HIDDEN]; FEATURES] = &WEIGHTS;
    let mut all = 0.0;
    for cells in (0..HIDDEN).step_by(BLOCK) {
        let mut sums = [0.0; BLOCK];
        sums.copy_from_slice(&BIASES[cells..][..BLOCK]);
        for (x, weights) in features.iter().zip(of_features) {
            for (sum, weight) in sums.iter_mut().zip(&weights[cells..][..BLOCK]) {
                *sum += x * weight;
            }
        }
        let cells = sums.iter().zip(&OUTPUT[cells..][..BLOCK]);
        all += cells.map(|(sum, weight)| sum.max(0.0) * weight).sum::<f32>();
    }
    all
}
