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

/// What it takes at least until a CTA has the sums that another one gave.
const FIXUP_US: f64 = 1.5;
/// What each element of the tile adds to that: it is written and read once.
const FIXUP_US_PER_ELEMENT: f64 = 8.0 / (128.0 * 256.0);

/// Stages that a cluster must have for a part of a tile to be worth its while.
const SHORTEST_RUN: u64 = 2;
/// Most parts of a tile that are tried.
const MOST_PARTS: u64 = 16;

/// How the cluster tiles are shared out (`gpu_kernels::gemm::scheduler`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Schedule {
    /// Clusters of the grid.
    pub clusters: u32,
    /// Cluster tiles whose stages all clusters share; the others are computed whole, in turn.
    pub streamed: u32,
}

impl Schedule {
    /// Every tile computed whole, by as many clusters as there is room or work for.
    pub fn whole(tiles: u64, active: u64) -> Self {
        Self { clusters: tiles.min(active) as u32, streamed: 0 }
    }

    /// This schedule, if `active` clusters can do it.
    pub(super) fn checked(
        self,
        shares: bool,
        tiling: &Tiling,
        k_tiles: u64,
        active: u64,
    ) -> Result<Self, Error> {
        let Self { clusters, streamed } = self;
        let tiles = tiling.clusters();
        let stages = u64::from(streamed).saturating_mul(k_tiles);
        if clusters == 0
            || u64::from(clusters) > active
            || u64::from(streamed) > tiles
            || stages > u64::from(u32::MAX)
            || (streamed > 0 && !shares)
        {
            return Err(Error::BadSchedule { clusters, streamed, active, tiles });
        }
        Ok(self)
    }

    /// What is worth a look for `tiles` cluster tiles of `k_tiles` stages on `active` clusters.
    fn candidates(
        shares: bool,
        tiles: u64,
        k_tiles: u64,
        active: u64,
    ) -> impl Iterator<Item = Self> {
        let streams =
            shares && k_tiles > 1 && u32::try_from(tiles.min(2 * active) * k_tiles).is_ok();
        let of = |clusters: u64, streamed: u64| Self {
            clusters: clusters as u32,
            streamed: streamed as u32,
        };
        // A last round that does not fill the machine is shared out, alone or with the one before.
        let rest = if tiles > active { tiles % active } else { 0 };
        let tail = [rest, rest + active].into_iter().map(move |streamed| of(active, streamed));
        // Fewer tiles than clusters: as many clusters for each as there is room for, or all.
        let times = (active / tiles).min(k_tiles / SHORTEST_RUN).min(MOST_PARTS);
        let split = (2..=times).map(move |parts| of(tiles * parts, tiles));
        let long = tiles * k_tiles >= SHORTEST_RUN * active;
        let all = (tiles < active && long).then_some(of(active, tiles));
        let shared = tail.filter(move |_| rest > 0).chain(split).chain(all);
        std::iter::once(Self::whole(tiles, active)).chain(shared.filter(move |_| streams))
    }
}

/// Predicted time of a product in microseconds: that of the cluster with the most to do.
///
/// The constants are fitted to 14 shapes of three instances on one H200 (docs/performance.md). The
/// largest products take longer (power) and so do the thinnest (memory), whatever the instance: the
/// order of the instances is what the prediction is for.
fn predicted_us(instance: &Instance, tiles: u64, k_tiles: u64, schedule: Schedule) -> f64 {
    let (clusters, streamed) = (u64::from(schedule.clusters), u64::from(schedule.streamed));
    let elements = f64::from(instance.bm * instance.bn);
    let stage = (STAGE_US + STAGE_US_PER_ELEMENT * elements) * f64::from(instance.bk) / 64.0;
    let epilogue = EPILOGUE_US_PER_ELEMENT * elements;
    let rounds = (tiles - streamed).div_ceil(clusters) as f64;
    let whole = rounds * (k_tiles as f64 * stage + epilogue);
    if streamed == 0 {
        return LAUNCH_US + whole;
    }
    let run = (streamed * k_tiles).div_ceil(clusters) as f64;
    let fixup = FIXUP_US + FIXUP_US_PER_ELEMENT * elements;
    let finished = streamed.div_ceil(clusters) as f64;
    LAUNCH_US + whole + run * stage + finished * epilogue + fixup
}

/// The schedules that are worth a look on a device that holds `active` clusters, and their predicted
/// times in microseconds.
pub(super) fn schedules(
    instance: &Instance,
    tiling: &Tiling,
    k: u64,
    active: u64,
) -> impl Iterator<Item = (f64, Schedule)> {
    let (tiles, k_tiles) = (tiling.clusters(), k.div_ceil(u64::from(instance.bk)).max(1));
    Schedule::candidates(instance.shares, tiles, k_tiles, active)
        .map(move |s| (predicted_us(instance, tiles, k_tiles, s), s))
}

/// The one of them with the shortest predicted time.
pub(super) fn schedule(
    instance: &Instance,
    tiling: &Tiling,
    k: u64,
    active: u64,
) -> (f64, Schedule) {
    schedules(instance, tiling, k, active)
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .expect("there is always the one of whole tiles")
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
            let active = u64::from(sms / (i.cluster_m * i.cluster_n)).max(1);
            (schedule(i, &tiling, problem.k, active).0, index, i, tiling)
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
