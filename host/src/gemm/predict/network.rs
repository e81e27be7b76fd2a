//! A small network that compares candidates whose predicted times are near one another.
//!
//! The terms of a prediction are right to about 5 %, and many kernels come within twice that of the fastest one. What decides among
//! them is the sum of many small effects. The network has learned it from the records in docs/data/records, as a regression that
//! `bench/network/train.py` fits.

// A row of weights is a line.
#[rustfmt::skip]
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

/// Cells of a layer whose sums fit into the registers of a core.
const TOGETHER: usize = 32;

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

impl<const IN: usize, const OUT: usize> Layer<IN, OUT> {
    fn of(&self, inputs: &[f32; IN]) -> [f32; OUT] {
        // About half of the inputs are 0, and add nothing. Those that add are found without a branch.
        let (mut adding, mut count) = ([0; IN], 0);
        for (at, x) in inputs.iter().enumerate() {
            adding[count] = at as u8;
            count += usize::from(x.to_bits() != 0);
        }
        let mut cells = [0.0; OUT];
        for (part, cells) in cells.as_chunks_mut().0.iter_mut().enumerate() {
            self.part(part, inputs, &adding[..count], cells);
        }
        cells
    }

    /// As many cells as fit into the registers of a core. Inside of a larger function they would be in memory.
    #[inline(never)]
    fn part(&self, part: usize, inputs: &[f32; IN], adding: &[u8], cells: &mut [f32; TOGETHER]) {
        let of_part = |all: &[f32; OUT]| all.as_chunks().0[part];
        let mut sums: [f32; TOGETHER] = of_part(&self.biases);
        for at in adding {
            let at = usize::from(*at);
            for (sum, weight) in sums.iter_mut().zip(of_part(&self.weights[at])) {
                *sum += inputs[at] * weight;
            }
        }
        for (cell, sum) in cells.iter_mut().zip(sums) {
            *cell = sum.max(0.0);
        }
    }
}

/// How much longer a candidate takes than its terms say, as ln(factor), apart from a constant that all candidates of a product
/// share. `kernel` is the row of its kernel in the calibration.
pub(super) fn network(features: &[f32; FEATURES], kernel: Option<usize>) -> f32 {
    let mut inputs = [0.0; INPUTS];
    inputs[..FEATURES].copy_from_slice(features);
    let of = |member: &Member| {
        let numbers = kernel.map_or([0.0; OF_KERNEL], |row| member.kernels[row]);
        inputs[FEATURES..].copy_from_slice(&numbers);
        let cells = member.second.of(&member.first.of(&inputs));
        cells.iter().zip(&member.output).map(|(cell, weight)| cell * weight).sum::<f32>()
    };
    MEMBERS.iter().map(of).sum()
}
