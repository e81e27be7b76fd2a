//! Picks the kernel of a product with layouts and batches.

use super::error::StridedError;
use super::problem::{Layout, StridedProblem};
use crate::error::Error;
use crate::gemm::Gemm;
use crate::gemm::calibration::Calibration;
use crate::gemm::predict::{Candidate, Prediction, Tiled, schedule};
use crate::tensor_error::dtype_name;
use gpu_kernels::gemm::Instance;

/// Whether an instance computes this product, as the kernel sees it.
pub(super) fn fits(instance: &Instance, problem: &StridedProblem) -> bool {
    let plain = instance.batched && !instance.has_c && !instance.swap_ab;
    let types = (instance.ab, instance.out) == (problem.dtype, problem.dtype);
    plain && types && Layout::of(instance) == problem.layout
}

/// The row of the table with the shortest predicted time, and the reason.
///
/// The prediction is that of a K-major product with the same number of tiles ([`StridedProblem::stacked`]).
pub(super) fn pick(gemm: &Gemm, problem: &StridedProblem) -> Result<(usize, String), Error> {
    let mut best: Option<Candidate<'_>> = None;
    for (index, instance) in gemm.instances().iter().enumerate().filter(|(_, i)| fits(i, problem)) {
        let active = gemm.active(instance)?;
        if active == 0 {
            continue;
        }
        let stacked = problem.stacked(instance);
        let held = (gemm.device.sms(), active);
        let tiled = Tiled::new(instance, &stacked, held, &Calibration::H200);
        let prediction = Prediction::new(&tiled, schedule(instance, &stacked, held));
        let candidate = Candidate { index, instance, prediction };
        if best.as_ref().is_none_or(|best| candidate.order(best).is_lt()) {
            best = Some(candidate);
        }
    }
    let Some(Candidate { index, instance, prediction }) = best else {
        return Err(none(gemm.instances(), problem).into());
    };
    let (Instance { bm, bn, .. }, time) = (instance, prediction.predicted_us);
    let why = format!(
        "of the kernels for the layout {}, tiles of {bm}x{bn} have the shortest predicted time on an H200, {time:.1} us",
        problem.layout
    );
    Ok((index, why))
}

/// The error for a product that no row computes.
fn none(table: &[Instance], problem: &StridedProblem) -> StridedError {
    let word = |i: &Instance| format!("{} {}", dtype_name(i.ab), Layout::of(i));
    let mut have: Vec<String> = table.iter().map(word).collect();
    have.sort();
    have.dedup();
    let have = if have.is_empty() { "nothing".to_owned() } else { have.join(", ") };
    let cure = if table.is_empty() { "; turn on warpipe's feature `gemm-layouts`" } else { "" };
    let (dtype, layout) = (dtype_name(problem.dtype), problem.layout.to_string());
    StridedError::NoInstance { dtype, layout, have, cure }
}
