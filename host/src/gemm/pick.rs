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
///
/// If all cluster tiles run at the same time, they need the same rows of A and B in any order. Clusters with neighbouring
/// numbers start at nearly the same time, so those should share the larger operand: the rows of A in a swizzle of one
/// row of cluster tiles, and those of B in a swizzle of all rows.
pub(super) fn raster_swizzle(instance: &Instance, tiling: &Tiling, active: u64) -> u32 {
    let rows = f64::from(instance.bm * instance.cluster_m);
    let cols = f64::from(instance.bn * instance.cluster_n);
    let all = tiling.clusters_m.max(1);
    let height = if tiling.clusters() > active {
        (active as f64 * cols / rows).sqrt().round() as u64
    } else if rows > cols {
        1
    } else {
        all
    };
    height.clamp(1, all) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpu_kernels::gemm::INSTANCES;

    /// The raster swizzle of a bf16 kernel for `m` x `n`, with as many clusters as there are tiles, but `most` at most.
    fn of(name: &str, m: u64, n: u64, most: u64) -> u32 {
        let name = format!("gemm_bf16_bf16_{name}");
        let instance = INSTANCES.iter().find(|i| i.desc.meta.name() == name).expect("a kernel");
        let tiling = Tiling::new(instance, m, n);
        raster_swizzle(instance, &tiling, tiling.clusters().min(most))
    }

    #[test]
    fn clusters_of_one_wave_share_the_larger_operand_with_their_neighbours() {
        // 13 x 5 cluster tiles of 512 x 128, and 21 x 3 of 256 x 96, where A and B are exchanged: those of a row are neighbours.
        assert_eq!(of("256x128_2x1", 6578, 640, 66), 1);
        assert_eq!(of("96x128t_2x1", 276, 5280, 66), 1);
        // 5 x 13 of 128 x 224: those of a column are.
        assert_eq!(of("128x112_1x2", 596, 2888, 66), 5);
    }

    #[test]
    fn clusters_of_several_waves_cover_nearly_a_square() {
        // 66 of 32 x 32 cluster tiles of 256 x 256.
        assert_eq!(of("128x256_2x1", 8192, 8192, 66), 8);
        // 66 of 13 x 6 of 512 x 128: a raster group of four rows has 24.
        assert_eq!(of("256x128_2x1", 6578, 768, 66), 4);
    }
}
