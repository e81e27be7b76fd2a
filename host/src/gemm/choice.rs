//! A kernel of a plan with its grid.

use super::schedule::Schedule;
use crate::launch::Prepared;
use gpu_kernels::gemm::{Instance, TileSchedulerParams};
use pipeline::grid::Partials;

/// An instance with its grid and raster swizzle.
pub(super) struct Choice {
    pub instance: &'static Instance,
    pub grid: [u32; 3],
    /// The kernel in the module, for this grid.
    pub prepared: Prepared,
    pub raster_swizzle: u32,
    pub streamed: u32,
    /// K tiles that each CTA prefetches into L2 while the primary grid still runs.
    pub prefetch: u32,
    /// Whether the grid is throttled.
    pub throttled: bool,
    /// Predicted time in microseconds.
    pub predicted_us: f64,
}

impl Choice {
    fn schedule(&self) -> Schedule {
        let cluster = self.instance.desc.meta.cluster_size();
        Schedule { clusters: self.grid[0] / cluster, streamed: self.streamed }
    }

    /// The tile scheduler's parameters for a product of `[M, N, K]` as the instance sees them.
    pub(super) fn scheduler(&self, size: [u64; 3]) -> TileSchedulerParams {
        let Schedule { clusters, streamed } = self.schedule();
        self.instance.scheduler(size.map(|x| x as u32), self.raster_swizzle, clusters, streamed)
    }

    /// Bytes of the stream-K workspace.
    pub(super) fn partial_bytes(&self) -> usize {
        if self.streamed == 0 {
            return 0;
        }
        let groups = u64::from(self.instance.groups);
        let columns = u64::from(self.instance.bm * self.instance.bn) / (64 * groups);
        Partials::bytes(u64::from(self.grid[0]), groups, columns) as usize
    }
}
