//! Which instance, which grid, which raster.

use super::GemmProblem;
use crate::error::Error;
use crate::tensor_error::dtype_name;
use gpu_kernels::gemm::Instance;
use std::fmt::Write;

/// What the picker chose, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pick {
    /// Row of the table.
    pub index: usize,
    /// One sentence.
    pub why: String,
}

/// How a problem falls into an instance's tiles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tiling {
    /// Tiles of D that have at least one element.
    pub tiles: u64,
    /// Rows of clusters.
    pub clusters_m: u64,
    /// Columns of clusters.
    pub clusters_n: u64,
}

impl Tiling {
    pub fn new(instance: &Instance, m: u64, n: u64) -> Self {
        let (bm, bn) = (u64::from(instance.bm), u64::from(instance.bn));
        let (cm, cn) = (u64::from(instance.cluster_m), u64::from(instance.cluster_n));
        let (tiles_m, tiles_n) = (m.div_ceil(bm), n.div_ceil(bn));
        Self {
            tiles: tiles_m * tiles_n,
            clusters_m: tiles_m.div_ceil(cm),
            clusters_n: tiles_n.div_ceil(cn),
        }
    }

    pub fn clusters(&self) -> u64 {
        self.clusters_m * self.clusters_n
    }
}

/// Whether an instance computes this product.
pub(super) fn fits(instance: &Instance, problem: &GemmProblem, c: bool) -> bool {
    (instance.ab, instance.out, instance.has_c) == (problem.ab, problem.out, c)
}

/// A launch, and the start and the end of a kernel that does nothing much, in microseconds.
const LAUNCH_US: f64 = 2.5;
/// A stage of the main loop takes this long even for a tiny tile: barriers, TMA, issue.
const STAGE_US: f64 = 0.125;
/// What each element of the tile adds to a stage of 64 columns: 2048 multiplications a clock would
/// give 0.017 µs per 1000 elements; shared memory and L2 hide some and add some.
const STAGE_US_PER_ELEMENT: f64 = 0.0137e-3;
/// The epilogue of a tile of 128 x 256, as far as the next tile's main loop does not hide it.
const EPILOGUE_US_PER_ELEMENT: f64 = 2.0 / (128.0 * 256.0);

/// Predicted time of a product in microseconds: the CTA with the most tiles computes them one after
/// the other.
///
/// The constants are fitted to 14 shapes of three instances on one H200 (docs/performance.md). The
/// largest products take longer (power) and so do the thinnest (memory), whatever the instance: the
/// order of the instances is what the prediction is for.
fn predicted_us(instance: &Instance, tiling: &Tiling, k: u64, sms: u64) -> f64 {
    let cluster = u64::from(instance.cluster_m * instance.cluster_n);
    let rounds = tiling.clusters().div_ceil((sms / cluster).max(1)) as f64;
    let stages = k.div_ceil(u64::from(instance.bk)).max(1) as f64;
    let elements = f64::from(instance.bm * instance.bn);
    let stage = (STAGE_US + STAGE_US_PER_ELEMENT * elements) * f64::from(instance.bk) / 64.0;
    LAUNCH_US + rounds * (stages * stage + EPILOGUE_US_PER_ELEMENT * elements)
}

/// Picks the instance for `problem` (with C if `c`) on a device of `sms` SMs: the one with the
/// shortest predicted time. Among equals the larger cluster (more multicast), then the deeper ring.
///
/// # Errors
/// [`Error::NoInstance`] names what the table has.
pub fn pick(table: &[Instance], problem: &GemmProblem, c: bool, sms: u32) -> Result<Pick, Error> {
    let best = table
        .iter()
        .enumerate()
        .filter(|(_, i)| fits(i, problem, c))
        .map(|(index, i)| {
            let tiling = Tiling::new(i, problem.m, problem.n);
            (predicted_us(i, &tiling, problem.k, u64::from(sms)), index, i, tiling)
        })
        .min_by(|(time, _, i, _), (other, _, j, _)| {
            let second = |i: &Instance| (i.cluster_m * i.cluster_n, i.stages);
            time.total_cmp(other).then(second(j).cmp(&second(i)))
        });
    let Some((time, index, i, t)) = best else {
        return Err(Error::NoInstance {
            ab: dtype_name(problem.ab),
            out: dtype_name(problem.out),
            c: if c { "with C" } else { "without C" },
            count: table.len(),
            have: table_in_words(table),
        });
    };
    let (bm, bn, tiles) = (i.bm, i.bn, t.tiles);
    let why = format!(
        "{tiles} tiles of {bm}x{bn} on {sms} SMs have the shortest predicted time on an H200, \
         {time:.1} us"
    );
    Ok(Pick { index, why })
}

/// The kinds of product that a table has.
fn table_in_words(table: &[Instance]) -> String {
    let mut kinds: Vec<String> = table.iter().map(kind_in_words).collect();
    kinds.sort();
    kinds.dedup();
    if kinds.is_empty() { "nothing".into() } else { kinds.join(", ") }
}

/// What an instance computes.
pub(super) fn kind_in_words(i: &Instance) -> String {
    let mut s = format!("{} to {}", dtype_name(i.ab), dtype_name(i.out));
    let _ = write!(s, " {} C", if i.has_c { "with" } else { "without" });
    s
}

/// Rows of clusters in a raster group.
///
/// Tiles are walked group by group, down the rows of a group before along its columns, so that the
/// clusters that run at one time cover a rectangle of D. Of all rectangles with `active` clusters
/// the one nearest to a square in elements reads the fewest rows of A and B: its height in
/// clusters is the root of `active * cluster columns / cluster rows`.
pub(super) fn raster_group(instance: &Instance, tiling: &Tiling, active: u64) -> u32 {
    let rows = f64::from(instance.bm * instance.cluster_m);
    let cols = f64::from(instance.bn * instance.cluster_n);
    let height = (active as f64 * cols / rows).sqrt().round() as u64;
    height.clamp(1, tiling.clusters_m.max(1)) as u32
}
