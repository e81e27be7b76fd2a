//! A small network that compares candidates whose predicted times are near one another.
//!
//! The terms of a prediction are right to about 5 %, and many kernels come within twice that of the fastest one. What decides among
//! them is the sum of many small effects. The network has learned it from the records in docs/data/records, as a regression that
//! `bench/network/train.py` fits.

mod weights;

use crate::gemm::kernel_times::KERNELS;
use weights::MEMBERS;

/// Numbers that the network is told of a candidate.
pub const FEATURES: usize = 50;
/// Numbers of a kernel, which are trained with the weights. A kernel that was not measured has zeros.
const OF_KERNEL: usize = 8;
const INPUTS: usize = FEATURES + OF_KERNEL;
/// Cells of the two hidden layers.
const FIRST: usize = 64;
const SECOND: usize = 32;
/// Cells whose sums are in registers at the same time.
const BLOCK: usize = 32;

/// One of the networks whose results are added.
struct Member {
    /// The numbers of each kernel, in the order of [`Calibration::kernels`](crate::gemm::Calibration::kernels).
    kernels: [[f32; OF_KERNEL]; KERNELS],
    first: Layer<INPUTS, FIRST>,
    second: Layer<FIRST, SECOND>,
    /// What a cell adds to the result, divided by the number of members.
    output: [f32; SECOND],
}

/// A layer of ReLU units.
struct Layer<const IN: usize, const OUT: usize> {
    /// What a cell has without inputs.
    biases: [f32; OUT],
    /// What an input adds to each cell.
    weights: [[f32; OUT]; IN],
}

/// What the network is told of a candidate.
pub(super) struct Told {
    pub features: [f32; FEATURES],
    /// The row of its kernel among the measured times ([`KernelTimes`](crate::gemm::KernelTimes)).
    pub kernel: Option<usize>,
}

impl<const IN: usize, const OUT: usize> Layer<IN, OUT> {
    #[inline(always)]
    fn of(&self, inputs: &[f32; IN]) -> [f32; OUT] {
        const { assert!(OUT.is_multiple_of(BLOCK)) };
        let mut out = [0.0; OUT];
        for (block, out) in out.chunks_exact_mut(BLOCK).enumerate() {
            let first = block * BLOCK;
            let mut sums = [0.0; BLOCK];
            sums.copy_from_slice(&self.biases[first..][..BLOCK]);
            for (x, weights) in inputs.iter().zip(&self.weights) {
                for (sum, weight) in sums.iter_mut().zip(&weights[first..][..BLOCK]) {
                    *sum += x * weight;
                }
            }
            for (out, sum) in out.iter_mut().zip(sums) {
                *out = sum.max(0.0);
            }
        }
        out
    }
}

/// How much longer each candidate takes than its terms say, as ln(factor), apart from a constant that all candidates of a product
/// share.
pub(super) fn network(told: &[Told]) -> Vec<f32> {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { with_avx2(told) };
    }
    results(told)
}

/// [`results`] in half the time. It has the same bits, because the sums have the same order, and nothing is fused.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2(told: &[Told]) -> Vec<f32> {
    results(told)
}

#[inline(always)]
fn results(told: &[Told]) -> Vec<f32> {
    let mut all = vec![0.0; told.len()];
    // The weights of one member fit in the L1 cache.
    for member in &MEMBERS {
        for (Told { features, kernel }, result) in told.iter().zip(&mut all) {
            let mut inputs = [0.0; INPUTS];
            inputs[..FEATURES].copy_from_slice(features);
            if let Some(row) = kernel {
                inputs[FEATURES..].copy_from_slice(&member.kernels[*row]);
            }
            let cells = member.second.of(&member.first.of(&inputs));
            *result +=
                cells.iter().zip(&member.output).map(|(cell, weight)| cell * weight).sum::<f32>();
        }
    }
    all
}
