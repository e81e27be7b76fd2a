//! The description of a plan, as text and as JSON.

use super::GemmProblem;
use super::choice::Choice;
use super::schedule::{Schedule, Tiling};
use crate::device::Device;
use crate::tensor_error::dtype_name;
use serde::Serialize;
use std::fmt;

/// Description of a plan, as text and as JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlanInfo {
    /// The device.
    pub device: String,
    /// Rows of D.
    pub m: u64,
    /// Columns of D.
    pub n: u64,
    /// Columns of A and B.
    pub k: u64,
    /// Type of A and B.
    pub ab: &'static str,
    /// Type of C and D.
    pub out: &'static str,
    /// Whether C is added.
    pub with_c: bool,
    /// Whether D has N / 2 columns ([`Gemm::gated`](super::Gemm::gated)).
    pub gated: bool,
    /// The kernel, or `None` when D is empty.
    pub kernel: Option<KernelInfo>,
    /// Operands that are copied to a row pitch that TMA accepts.
    pub staging: Vec<StagingInfo>,
    /// Special cases of this plan, one sentence each.
    pub notes: Vec<String>,
}

/// The kernel of a plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KernelInfo {
    /// Name in the image.
    pub name: String,
    /// Row of the instance table.
    pub index: usize,
    /// BM, BN, BK.
    pub tile: [u32; 3],
    /// CTAs of a cluster, along M and along N.
    pub cluster: [u32; 2],
    /// Stages (slots) of the ring.
    pub stages: u32,
    /// Threads of a CTA.
    pub threads: u32,
    /// Shared memory of a CTA in bytes.
    pub smem_bytes: u32,
    /// CTAs of the grid.
    pub ctas: u32,
    /// Tiles of D.
    pub tiles: u64,
    /// Tiles per CTA.
    pub waves: f64,
    /// Raster swizzle, in rows of cluster tiles.
    pub raster_swizzle: u32,
    /// Cluster tiles that are split along K among all clusters (stream-K).
    pub streamed: u32,
    /// K tiles that each CTA prefetches into L2 while the primary grid still runs.
    pub prefetch: u32,
    /// Whether the grid is throttled.
    pub throttled: bool,
    /// Predicted time in microseconds.
    pub predicted_us: f64,
    /// Why this kernel was chosen.
    pub why: String,
}

/// An operand that reaches TMA through a padded copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StagingInfo {
    /// A, B, C or D.
    pub operand: char,
    /// Bytes of a row.
    pub row_bytes: u64,
    /// Bytes of a row in the copy.
    pub pitch: u64,
    /// Bytes of the copy.
    pub bytes: u64,
}

impl PlanInfo {
    pub(super) fn of(device: &Device, p: &GemmProblem, gated: bool) -> Self {
        Self {
            device: device.describe(),
            m: p.m,
            n: p.n,
            k: p.k,
            ab: dtype_name(p.ab),
            out: dtype_name(p.out),
            with_c: p.beta_c,
            gated,
            kernel: None,
            staging: Vec::new(),
            notes: Vec::new(),
        }
    }
}

impl KernelInfo {
    pub(super) fn of(problem: &GemmProblem, index: usize, choice: &Choice, why: String) -> Self {
        let i = choice.instance;
        let meta = &i.desc.meta;
        let tiling = Tiling::new(i, problem.m, problem.n);
        let tiles = tiling.tiles;
        Self {
            name: meta.name().into(),
            index,
            tile: [i.bm, i.bn, i.bk],
            cluster: [i.cluster_m, i.cluster_n],
            stages: i.stages,
            threads: meta.threads,
            smem_bytes: meta.smem_bytes,
            ctas: choice.grid[0],
            tiles,
            waves: tiles as f64 / f64::from(choice.grid[0]),
            raster_swizzle: choice.raster_swizzle,
            streamed: choice.streamed,
            prefetch: choice.prefetch,
            throttled: choice.throttled,
            predicted_us: choice.predicted_us,
            why,
        }
    }

    /// The schedule: clusters of the grid and split tiles.
    pub fn schedule(&self) -> Schedule {
        let [m, n] = self.cluster;
        Schedule { clusters: self.ctas / (m * n), streamed: self.streamed }
    }
}

impl fmt::Display for KernelInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [bm, bn, bk] = self.tile;
        let [cm, cn] = self.cluster;
        writeln!(f, "  kernel {} ({}): {}", self.name, self.index, self.why)?;
        writeln!(
            f,
            "  tile {bm}x{bn}x{bk}, {} stages, cluster {cm}x{cn}, {} threads, {} bytes of shared memory",
            self.stages, self.threads, self.smem_bytes
        )?;
        writeln!(
            f,
            "  {} tiles on {} CTAs ({:.2} waves), raster swizzle of {} cluster-tile rows",
            self.tiles, self.ctas, self.waves, self.raster_swizzle
        )?;
        if self.streamed > 0 {
            writeln!(
                f,
                "  {} cluster tiles are split along K among all clusters (stream-K)",
                self.streamed
            )?;
        }
        if self.prefetch > 0 {
            let prefetch = self.prefetch;
            writeln!(
                f,
                "  {prefetch} k tiles per CTA are prefetched while the primary grid still runs"
            )?;
        }
        if self.throttled {
            writeln!(f, "  the grid throttle keeps CTAs close together between tiles")?;
        }
        Ok(())
    }
}

impl fmt::Display for StagingInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operand, row_bytes, pitch, bytes } = self;
        writeln!(
            f,
            "  {operand}: rows of {row_bytes} bytes are padded to {pitch} (TMA needs multiples of 16) in a copy of {bytes} bytes"
        )
    }
}

impl fmt::Display for PlanInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { m, n, k, ab, out, .. } = self;
        let (columns, gated) = if self.gated { (n / 2, " gated") } else { (*n, "") };
        write!(f, "D[{m}, {columns}] {out} ={gated} A[{m}, {k}] B[{n}, {k}]^T {ab}")?;
        if self.with_c {
            write!(f, " + C")?;
        }
        writeln!(f, " on {}", self.device)?;
        if let Some(kernel) = &self.kernel {
            write!(f, "{kernel}")?;
        }
        for copy in &self.staging {
            write!(f, "{copy}")?;
        }
        for note in &self.notes {
            writeln!(f, "  {note}")?;
        }
        Ok(())
    }
}
