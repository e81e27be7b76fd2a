//! How the tiles of a product are distributed among clusters, and the schedules that are worth trying.

use super::GemmProblem;
use crate::error::Error;
use gpu_kernels::gemm::Instance;
use gpu_kernels::gemm::divmod::FastDivmod;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

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
    #[inline]
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
