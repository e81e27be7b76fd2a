//! Picks the kernel of a product with layouts and batches.

use super::error::StridedError;
use super::problem::{Layout, StridedProblem};
use crate::error::Error;
use crate::gemm::Gemm;
use crate::gemm::predict::{Candidate, Tiled};
use crate::tensor_error::dtype_name;
use gpu_kernels::gemm::Instance;

/// Whether an instance computes this product, as the kernel sees it.
pub(super) fn fits(instance: &Instance, problem: &StridedProblem) -> bool {
    let plain = instance.batched && instance.has_c == problem.beta_c && !instance.swap_ab;
    let types = (instance.ab, instance.out) == (problem.dtype, problem.dtype);
    plain && types && Layout::of(instance) == problem.layout
}

/// The rows that compute this product, as the kernel sees it, in the table's order, each with every schedule that is worth
/// trying.
///
/// The predictions are those of a K-major product with the same number of tiles ([`StridedProblem::stacked`]).
pub(super) fn candidates(
    gemm: &Gemm,
    problem: &StridedProblem,
) -> Result<Vec<Candidate<'static>>, Error> {
    let mut all = Vec::new();
    for (index, instance) in gemm.instances().iter().enumerate().filter(|(_, i)| fits(i, problem)) {
        let active = gemm.active(instance)?;
        if active == 0 {
            continue;
        }
        let stacked = problem.stacked(instance);
        let tiled = Tiled::new(instance, &stacked, gemm.hardware, active);
        all.extend(tiled.schedules().map(|prediction| Candidate { index, instance, prediction }));
    }
    if all.is_empty() {
        return Err(none(gemm.instances(), problem).into());
    }
    Ok(all)
}

/// The row of the table with the shortest predicted time, and the reason.
pub(super) fn pick(gemm: &Gemm, problem: &StridedProblem) -> Result<(usize, String), Error> {
    let best = candidates(gemm, problem)?.into_iter().min_by(Candidate::order);
    let Candidate { index, instance, prediction } =
        best.ok_or_else(|| none(gemm.instances(), problem))?;
    let (Instance { bm, bn, .. }, time) = (instance, prediction.predicted_us);
    let gpu = gemm.hardware.calibration.gpu;
    let why = format!(
        "of the kernels for the layout {}, tiles of {bm}x{bn} have the shortest predicted time on an {gpu}, {time:.1} us",
        problem.layout
    );
    Ok((index, why))
}

/// The error for a product that no row computes.
fn none(table: &[Instance], problem: &StridedProblem) -> StridedError {
    let c = |has| if has { " with C" } else { "" };
    let word = |i: &Instance| format!("{} {}{}", dtype_name(i.ab), Layout::of(i), c(i.has_c));
    let mut have: Vec<String> = table.iter().map(word).collect();
    have.sort();
    have.dedup();
    let have = if have.is_empty() { "nothing".to_owned() } else { have.join(", ") };
    let cure = if table.is_empty() { "; turn on warpipe's feature `gemm-layouts`" } else { "" };
    let (dtype, layout) =
        (dtype_name(problem.dtype), problem.layout.to_string() + c(problem.beta_c));
    StridedError::NoInstance { dtype, layout, have, cure }
}
