//! Picks the instance, its schedule and its raster swizzle.

use super::predict::best;
use super::schedule::{Schedule, Tiling};
use super::{GemmProblem, HardwareInfo};
use crate::error::Error;
use crate::tensor_error::{dtype_name, pair_name};
use gpu_kernels::gemm::integer::{INT8_INSTANCES, INT8_SCALED_INSTANCES};
use gpu_kernels::gemm::quantised::{E4M3_FAST_INSTANCES, E4M3_INSTANCES};
use gpu_kernels::gemm::table::FEATURES;
use gpu_kernels::gemm::{FAST_ACCUM_INSTANCES, INSTANCES, Instance, SCALED_INSTANCES};
use std::fmt::Write;

/// The picker's choice, with its reason.
#[derive(Clone, PartialEq, Debug)]
pub struct Pick {
    /// Row of the table.
    pub index: usize,
    /// Its clusters, and the tiles that they split.
    pub schedule: Schedule,
    /// Predicted time in microseconds.
    pub predicted_us: f64,
    /// The reason, in one sentence.
    pub why: String,
}

/// Picks the instance for `problem` (with C if `c`) on a GPU: the one with the shortest
/// predicted time in any schedule, where a network has compared those that are near it. Among equals it prefers the larger cluster (more multicast), then the
/// ring with more stages.
///
/// # Errors
/// [`Error::NoInstance`] if no instance computes the problem. It lists what the table has.
pub fn pick(
    table: &[Instance],
    problem: &GemmProblem,
    c: bool,
    hardware: HardwareInfo,
) -> Result<Pick, Error> {
    let best = best(table, problem, c, hardware);
    let Some(best) = best else {
        return Err(Error::NoInstance {
            ab: dtype_name(problem.ab),
            out: dtype_name(problem.out),
            c: if c { "with C" } else { "without C" },
            count: table.len(),
            have: table_in_words(table),
            cure: missing_feature(table, problem),
        });
    };
    let (Instance { bm, bn, .. }, tiles) = (best.instance, best.prediction.tiles);
    let time = best.prediction.predicted_us;
    let HardwareInfo { sms, calibration } = hardware;
    let gpu = calibration.gpu;
    let why = format!(
        "{tiles} tiles of {bm}x{bn} on {sms} SMs have the shortest predicted time on an {gpu}, \
         {time:.1} us"
    );
    Ok(Pick { index: best.index, schedule: best.prediction.schedule, predicted_us: time, why })
}

/// What to do if a feature leaves the kernels of `problem` out of this project's own table.
fn missing_feature(table: &[Instance], problem: &GemmProblem) -> String {
    let own = [
        INSTANCES.rows,
        SCALED_INSTANCES.rows,
        FAST_ACCUM_INSTANCES.rows,
        E4M3_INSTANCES.rows,
        E4M3_FAST_INSTANCES.rows,
        INT8_INSTANCES.rows,
        INT8_SCALED_INSTANCES.rows,
    ];
    if !own.iter().any(|own| std::ptr::eq(table, *own)) {
        return String::new();
    }
    let kind = |(ab, out, ..): &&(_, _, _, _)| (*ab, *out) == (problem.ab, problem.out);
    match FEATURES.iter().find(kind) {
        Some((_, _, feature, false)) => format!("; turn on warpipe's feature `{feature}`"),
        _ => String::new(),
    }
}

/// The kinds of product that a table computes, as text.
fn table_in_words(table: &[Instance]) -> String {
    let mut kinds: Vec<String> = table.iter().map(kind_in_words).collect();
    kinds.sort();
    kinds.dedup();
    if kinds.is_empty() { "nothing".into() } else { kinds.join(", ") }
}

/// The kind of product that an instance computes, as text.
pub(super) fn kind_in_words(i: &Instance) -> String {
    let mut s = format!("{} to {}", pair_name(i.ab, i.b), dtype_name(i.out));
    let _ = write!(s, " {} C", if i.has_c { "with" } else { "without" });
    s
}

/// The raster swizzle: rows of cluster tiles that the scheduler walks before it goes on to the next column.
///
/// The clusters that run at the same time cover a rectangle of D. Among all rectangles of `active` cluster
/// tiles, the one nearest to a square in elements needs the fewest rows of A and B. Its height in
/// cluster tiles is `sqrt(active * cluster_tile_columns / cluster_tile_rows)`. (CUTLASS
/// `max_swizzle_size`.)
pub(super) fn raster_swizzle(instance: &Instance, tiling: &Tiling, active: u64) -> u32 {
    let rows = f64::from(instance.bm * instance.cluster_m);
    let cols = f64::from(instance.bn * instance.cluster_n);
    let height = (active as f64 * cols / rows).sqrt().round() as u64;
    height.clamp(1, tiling.clusters_m.max(1)) as u32
}
