//! The description of a grouped plan, as text and as JSON.

use super::{GroupedProblem, GroupedRows};
use crate::tensor_error::dtype_name;
use serde::Serialize;
use std::fmt;

/// Description of a grouped plan, as text and as JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupedInfo {
    /// The device.
    pub device: String,
    /// Groups.
    pub groups: u64,
    /// Rows of A and D, of all groups.
    pub rows: u64,
    /// Rows that each group has room for; `None` if groups follow one another.
    pub max_rows: Option<u64>,
    /// Rows of a group for which the kernel was chosen.
    pub mean_rows: u64,
    /// Columns of D.
    pub n: u64,
    /// Columns of A and B.
    pub k: u64,
    /// Type of A, B and D.
    pub dtype: &'static str,
    /// The kernel, or `None` when D is empty.
    pub kernel: Option<GroupedKernelInfo>,
}

/// The kernel of a grouped plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupedKernelInfo {
    /// Name in the image.
    pub name: String,
    /// Row of the instance table.
    pub index: usize,
    /// Rows and columns of D in a tile, and columns of a k tile.
    pub tile: [u32; 3],
    /// CTAs of a cluster.
    pub cluster: u32,
    /// Stages (slots) of the ring.
    pub stages: u32,
    /// CTAs of the grid.
    pub ctas: u32,
    /// Raster swizzle, in rows of cluster tiles.
    pub raster_swizzle: u32,
    /// Predicted time in microseconds, if all groups have `mean_rows` rows.
    pub predicted_us: f64,
    /// Why this kernel was chosen.
    pub why: String,
}

impl GroupedInfo {
    pub(super) fn of(device: String, problem: &GroupedProblem) -> Self {
        let max_rows = match problem.rows {
            GroupedRows::Contiguous { .. } => None,
            GroupedRows::Masked { max, .. } => Some(max),
        };
        let GroupedProblem { groups, n, k, dtype, .. } = *problem;
        let (rows, mean_rows) = (problem.total_rows(), problem.mean_rows());
        let dtype = dtype_name(dtype);
        Self { device, groups, rows, max_rows, mean_rows, n, k, dtype, kernel: None }
    }
}

impl fmt::Display for GroupedInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { groups, rows, n, k, dtype, mean_rows, .. } = self;
        match self.max_rows {
            None => write!(f, "D[{rows}, {n}] = A[{rows}, {k}] B[{groups}, {n}, {k}]^T")?,
            Some(max) => write!(
                f,
                "D[{groups}, {max}, {n}] = A[{groups}, {max}, {k}] B[{groups}, {n}, {k}]^T masked"
            )?,
        }
        writeln!(f, " {dtype}, {mean_rows} rows a group on average, on {}", self.device)?;
        let Some(kernel) = &self.kernel else {
            return writeln!(f, "  D is empty: nothing is launched");
        };
        let [rows, columns, bk] = kernel.tile;
        writeln!(f, "  kernel {} ({}): {}", kernel.name, kernel.index, kernel.why)?;
        writeln!(
            f,
            "  tile {rows}x{columns}x{bk} of D, {} stages, clusters of {} CTAs, {} CTAs, raster swizzle of {} cluster-tile rows",
            kernel.stages, kernel.cluster, kernel.ctas, kernel.raster_swizzle
        )
    }
}
