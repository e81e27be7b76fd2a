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

/// Picks the instance for `problem` (with C if `c`) on a device of `sms` SMs.
///
/// The rule: the largest tile that still gives every SM one, for it reads the least from memory per
/// multiplication; if no instance has that many tiles, the one that keeps the most SMs busy.
/// Among equals the larger tile, then the larger cluster (more multicast), then the deeper ring.
///
/// # Errors
/// [`Error::NoInstance`] names what the table has.
pub fn pick(table: &[Instance], problem: &GemmProblem, c: bool, sms: u32) -> Result<Pick, Error> {
    let sms = u64::from(sms);
    let area = |i: &Instance| u64::from(i.bm) * u64::from(i.bn);
    let best = table
        .iter()
        .enumerate()
        .filter(|(_, i)| fits(i, problem, c))
        .map(|(index, i)| (index, i, Tiling::new(i, problem.m, problem.n)))
        .max_by_key(|(index, i, t)| {
            let busy = t.tiles.min(sms);
            let cluster = i.cluster_m * i.cluster_n;
            // A cluster without work in some of its CTAs is worse than a smaller one.
            let idle = t.clusters() * u64::from(cluster) - t.tiles;
            (busy, area(i), std::cmp::Reverse(idle), cluster, i.stages, std::cmp::Reverse(*index))
        });
    let Some((index, i, t)) = best else {
        return Err(Error::NoInstance {
            ab: dtype_name(problem.ab),
            out: dtype_name(problem.out),
            c: if c { "with C" } else { "without C" },
            count: table.len(),
            have: table_in_words(table),
        });
    };
    let (bm, bn, tiles) = (i.bm, i.bn, t.tiles);
    let why = if tiles >= sms {
        format!("{bm}x{bn} is the largest tile with work for all {sms} SMs ({tiles} tiles)")
    } else {
        format!("no tile gives all {sms} SMs work; {bm}x{bn} keeps the most busy ({tiles})")
    };
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
