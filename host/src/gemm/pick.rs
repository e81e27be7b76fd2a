//! Picks the instance, its schedule and its raster swizzle.

use super::predict::best;
use super::{GemmProblem, HardwareInfo};
use crate::error::Error;
use crate::tensor_error::{dtype_name, pair_name};
use gpu_kernels::gemm::divmod::FastDivmod;
use gpu_kernels::gemm::integer::{INT8_INSTANCES, INT8_SCALED_INSTANCES};
use gpu_kernels::gemm::quantised::{E4M3_FAST_INSTANCES, E4M3_INSTANCES};
use gpu_kernels::gemm::table::FEATURES;
use gpu_kernels::gemm::{FAST_ACCUM_INSTANCES, INSTANCES, Instance, SCALED_INSTANCES};
use serde::{Deserialize, Serialize};
use std::fmt::{self, Write};
use std::str::FromStr;

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

/// How an instance tiles a problem.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tiling {
    /// Tiles of D that have at least one element.
    pub tiles: u64,
    /// Cluster tiles along the instance's M.
    pub clusters_m: u64,
    /// Cluster tiles along the instance's N.
    pub clusters_n: u64,
    /// Whether the instance exchanges A and B: its M is the problem's N.
    pub swap_ab: bool,
}

impl Tiling {
    pub fn new(instance: &Instance, m: u64, n: u64) -> Self {
        let (m, n) = if instance.swap_ab { (n, m) } else { (m, n) };
        let (bm, bn) = (u64::from(instance.bm), u64::from(instance.bn));
        let (cm, cn) = (u64::from(instance.cluster_m), u64::from(instance.cluster_n));
        let (tiles_m, tiles_n) = (m.div_ceil(bm), n.div_ceil(bn));
        Self {
            tiles: tiles_m * tiles_n,
            clusters_m: tiles_m.div_ceil(cm),
            clusters_n: tiles_n.div_ceil(cn),
            swap_ab: instance.swap_ab,
        }
    }

    pub fn clusters(&self) -> u64 {
        self.clusters_m * self.clusters_n
    }
}

/// Whether an instance computes this product.
pub(super) fn fits(instance: &Instance, problem: &GemmProblem, c: bool) -> bool {
    let k_major_matrices = !(instance.a_mn_major || instance.b_mn_major || instance.batched);
    k_major_matrices && (instance.ab, instance.out, instance.has_c) == (problem.ab, problem.out, c)
}

/// The shortest run of k tiles that a cluster gets.
const MIN_RUN: u64 = 2;
/// The largest number of parts of a split tile.
const MAX_PARTS: u64 = 24;
/// Above this number of parts, the picker tries only every other number, because neighbours take about as long.
const EACH_PARTS: u64 = 8;
/// From this number of rounds on, the tiles of the last one are not split. That would gain 3 % at most, and in the records it
/// loses as often: clusters that split tiles are out of step, and memory delivers again what L2 can't hold.
const MAX_ROUNDS: u64 = 32;
/// The upper bound of the k tiles of all split tiles together, from the kernels' division by multiplication
/// ([`FastDivmod`]).
const MAX_K_TILES: u64 = FastDivmod::DIVIDENDS as u64;

/// How the cluster tiles are distributed among clusters (`gpu_kernels::gemm::scheduler`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Schedule {
    /// Clusters of the grid.
    pub clusters: u32,
    /// Cluster tiles that are split along K among all clusters (stream-K). The others are data-parallel.
    pub streamed: u32,
}

/// Written as `CLUSTERS/STREAMED`, for example `66/22`.
impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}", self.clusters, self.streamed))
    }
}

impl FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').map(|(c, s)| (c.parse(), s.parse()));
        match numbers {
            Some((Ok(clusters), Ok(streamed))) => Ok(Self { clusters, streamed }),
            _ => Err("a schedule is CLUSTERS/STREAMED, for example 66/22".to_owned()),
        }
    }
}

impl Schedule {
    /// Only data-parallel tiles, in the fewest rounds, with the fewest clusters that do so.
    pub fn whole(tiles: u64, active: u64) -> Self {
        let rounds = tiles.div_ceil(active.max(1)).max(1);
        Self { clusters: tiles.div_ceil(rounds) as u32, streamed: 0 }
    }

    /// This schedule, if the device holds its clusters and the instance can split its tiles.
    pub(super) fn checked(
        self,
        splits_k: bool,
        tiling: &Tiling,
        k_tiles: u64,
        active: u64,
    ) -> Result<Self, Error> {
        let Self { clusters, streamed } = self;
        let tiles = tiling.clusters();
        let split = u64::from(streamed).saturating_mul(k_tiles);
        let right = if clusters == 0 || u64::from(clusters) > active {
            format!("this device holds 1 to {active} clusters")
        } else if u64::from(streamed) > tiles {
            format!("there are {tiles} cluster tiles")
        } else if streamed > 0 && !splits_k {
            "this kernel does not split tiles, so the number must be 0".to_owned()
        } else if split >= MAX_K_TILES {
            format!("they have {split} k tiles, and the limit is {}", MAX_K_TILES - 1)
        } else {
            return Ok(self);
        };
        Err(Error::BadSchedule { clusters, streamed, right })
    }

    /// The schedules that are worth trying for `tiles` cluster tiles of `k_tiles` k tiles on `active`
    /// clusters.
    pub(super) fn worth_trying(
        splits_k: bool,
        tiles: u64,
        k_tiles: u64,
        active: u64,
    ) -> impl Iterator<Item = Self> {
        let streams = splits_k && k_tiles > 1 && tiles.min(active) * k_tiles < MAX_K_TILES;
        let of = |clusters: u64, streamed: u64| Self {
            clusters: clusters as u32,
            streamed: streamed as u32,
        };
        // The tiles of a last round that does not fill the device are split.
        let rest =
            if (active + 1..MAX_ROUNDS * active).contains(&tiles) { tiles % active } else { 0 };
        let tail = (rest > 0).then_some(of(active, rest));
        // Fewer tiles than clusters: two or more clusters for each tile. If there are fewer than two for
        // each, all clusters split all tiles.
        let times = (active / tiles.max(1)).min(k_tiles / MIN_RUN).min(MAX_PARTS);
        let tried = move |parts: &u64| *parts <= EACH_PARTS || (times - parts).is_multiple_of(2);
        let split = (2..=times).filter(tried).map(move |parts| of(tiles * parts, tiles));
        let long = tiles * k_tiles >= MIN_RUN * active;
        let all = (tiles < active && long && times < 2).then_some(of(active, tiles));
        let split = tail.into_iter().chain(split).chain(all);
        std::iter::once(Self::whole(tiles, active)).chain(split.filter(move |_| streams))
    }
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
