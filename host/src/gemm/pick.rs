//! Which instance, which grid, which raster.

use super::GemmProblem;
use super::predict::{Candidate, candidates};
use crate::error::Error;
use crate::tensor_error::dtype_name;
use gpu_kernels::gemm::Instance;
use gpu_kernels::gemm::divmod::FastDivmod;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Write};
use std::str::FromStr;

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
    /// Whether rows are columns of D.
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
    (instance.ab, instance.out, instance.has_c) == (problem.ab, problem.out, c)
}

/// Stages that a cluster must have for a part of a tile to be worth its while.
const SHORTEST_RUN: u64 = 2;
/// Most parts of a tile that are tried.
const MOST_PARTS: u64 = 16;
/// Stages of all shared tiles are fewer: kernels divide their numbers by multiplying.
const MOST_STAGES: u64 = FastDivmod::DIVIDENDS as u64;

/// How the cluster tiles are shared out (`gpu_kernels::gemm::scheduler`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Schedule {
    /// Clusters of the grid.
    pub clusters: u32,
    /// Cluster tiles whose stages all clusters share; the others are computed whole, in turn.
    pub streamed: u32,
}

/// As it is written and read: clusters, then shared tiles.
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
    /// Every tile computed whole, in as few rounds as there is room for, by no more clusters than
    /// these rounds need.
    pub fn whole(tiles: u64, active: u64) -> Self {
        let rounds = tiles.div_ceil(active.max(1)).max(1);
        Self { clusters: tiles.div_ceil(rounds) as u32, streamed: 0 }
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
        let right = if clusters == 0 || u64::from(clusters) > active {
            format!("this device holds 1 to {active} clusters")
        } else if u64::from(streamed) > tiles {
            format!("there are {tiles} cluster tiles")
        } else if streamed > 0 && !shares {
            "this kernel computes tiles whole, 0 are shared".to_owned()
        } else if stages >= MOST_STAGES {
            format!("they have {stages} stages, and less than {MOST_STAGES} can be shared")
        } else {
            return Ok(self);
        };
        Err(Error::BadSchedule { clusters, streamed, right })
    }

    /// What is worth a look for `tiles` cluster tiles of `k_tiles` stages on `active` clusters.
    pub(super) fn worth_a_look(
        shares: bool,
        tiles: u64,
        k_tiles: u64,
        active: u64,
    ) -> impl Iterator<Item = Self> {
        let streams = shares && k_tiles > 1 && tiles.min(active) * k_tiles < MOST_STAGES;
        let of = |clusters: u64, streamed: u64| Self {
            clusters: clusters as u32,
            streamed: streamed as u32,
        };
        // A last round that does not fill the machine is shared out.
        let rest = if tiles > active { tiles % active } else { 0 };
        let tail = (rest > 0).then_some(of(active, rest));
        // Fewer tiles than clusters: as many clusters for each as there is room for, or, if that is
        // one, all for all.
        let times = (active / tiles.max(1)).min(k_tiles / SHORTEST_RUN).min(MOST_PARTS);
        let split = (2..=times).map(move |parts| of(tiles * parts, tiles));
        let long = tiles * k_tiles >= SHORTEST_RUN * active;
        let all = (tiles < active && long && times < 2).then_some(of(active, tiles));
        let shared = tail.into_iter().chain(split).chain(all);
        std::iter::once(Self::whole(tiles, active)).chain(shared.filter(move |_| streams))
    }
}

/// Picks the instance for `problem` (with C if `c`) on a device of `sms` SMs: the one with the
/// shortest predicted time in any schedule. Among equals the larger cluster (more multicast), then the
/// deeper ring.
///
/// # Errors
/// [`Error::NoInstance`] names what the table has.
pub fn pick(table: &[Instance], problem: &GemmProblem, c: bool, sms: u32) -> Result<Pick, Error> {
    // `min_by` moves each candidate from hand to hand, which takes longer than to predict it.
    let mut best: Option<Candidate<'_>> = None;
    candidates(table, problem, c, sms).for_each(|candidate| {
        if best.as_ref().is_none_or(|best| candidate.order(best).is_lt()) {
            best = Some(candidate);
        }
    });
    let Some(best) = best else {
        return Err(Error::NoInstance {
            ab: dtype_name(problem.ab),
            out: dtype_name(problem.out),
            c: if c { "with C" } else { "without C" },
            count: table.len(),
            have: table_in_words(table),
        });
    };
    let (Instance { bm, bn, .. }, tiles) = (best.instance, best.prediction.tiles);
    let time = best.prediction.predicted_us;
    let why = format!(
        "{tiles} tiles of {bm}x{bn} on {sms} SMs have the shortest predicted time on an H200, \
         {time:.1} us"
    );
    Ok(Pick { index: best.index, why })
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
pub(super) fn raster_swizzle(instance: &Instance, tiling: &Tiling, active: u64) -> u32 {
    let rows = f64::from(instance.bm * instance.cluster_m);
    let cols = f64::from(instance.bn * instance.cluster_n);
    let height = (active as f64 * cols / rows).sqrt().round() as u64;
    height.clamp(1, tiling.clusters_m.max(1)) as u32
}
