//! The GEMM family: D = alpha * A * B^T + beta * C.

pub mod cooperative;
pub mod divmod;
pub mod epilogue;
pub mod instances;
/// What instances say of [`cooperative`] kernels that write half a tile while they multiply the other.
pub mod overlapped {
    pub use super::cooperative::{CPanel, Plan, SHARES, groups};
    /// As instances say it.
    pub const KERNEL_SCHEDULE: super::KernelSchedule = super::KernelSchedule::Overlapped;
}
pub mod loads;
pub mod pingpong;
pub mod scheduler;
pub mod sums;

use isa::kernel::KernelArg;
#[cfg(not(target_arch = "nvptx64"))]
use isa::kernel::{Dtype, KernelDesc};

#[cfg(not(target_arch = "nvptx64"))]
pub use instances::INSTANCES;
pub use scheduler::TileSchedulerParams;

/// What a GEMM kernel gets by value, besides its tensor maps.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Debug, KernelArg)]
pub struct GemmParams {
    /// Which work there is.
    pub scheduler: TileSchedulerParams,
    /// Stages of its first work that a CTA brings into the L2 cache while the grid ahead still runs.
    pub early: u32,
    /// Factor of the product.
    pub alpha: f32,
    /// Factor of C.
    pub beta: f32,
}

/// How the warp groups of a CTA share its tiles out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KernelSchedule {
    /// All multiply each tile together, 64 rows each ([`cooperative`]).
    Cooperative,
    /// The same, half of its columns after the other, so that one is written while the other is
    /// multiplied ([`sums::InHalves`]).
    Overlapped,
    /// Each multiplies tiles of its own, in turn, and writes while another multiplies ([`pingpong`]).
    Pingpong,
}

/// One compiled GEMM kernel: its tile, cluster and types.
///
/// Its parameters are the tensor maps of A, B, C and D, the partial sums' memory, then
/// [`GemmParams`]. Without C the third map is not read, and the host passes D's.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy)]
pub struct Instance {
    /// The kernel.
    pub desc: &'static KernelDesc,
    /// Rows of a CTA's tile of D.
    pub bm: u32,
    /// Columns of a CTA's tile of D.
    pub bn: u32,
    /// Columns of A and B in one stage.
    pub bk: u32,
    /// Stages of the main loop's ring.
    pub stages: u32,
    /// Warp groups that multiply a tile, 64 rows each.
    pub groups: u32,
    /// How its warp groups share the tiles out.
    pub kernel_schedule: KernelSchedule,
    /// Whether its CTAs can share a tile's K ([`TileSchedulerParams`]).
    pub shares: bool,
    /// CTAs of a cluster along M.
    pub cluster_m: u32,
    /// CTAs of a cluster along N.
    pub cluster_n: u32,
    /// Element type of A and B.
    pub ab: Dtype,
    /// Element type of C and D.
    pub out: Dtype,
    /// Whether it reads C.
    pub has_c: bool,
    /// Whether A and B are exchanged: its A is B, its rows D's columns, and what it stores is turned
    /// back.
    pub turned: bool,
}

#[cfg(not(target_arch = "nvptx64"))]
impl Instance {
    /// What each of two CTAs on an SM can have of its 228 KiB of shared memory, of which the system
    /// keeps 1 KiB for each.
    const HALF_SMEM: u32 = 113 * 1024;

    /// Whether an SM has room for two of its CTAs: one of a grid, and one of the grid behind it.
    pub const fn two_fit(&self) -> bool {
        self.desc.meta.min_ctas > 1 && self.desc.meta.smem_bytes <= Self::HALF_SMEM
    }

    /// What its scheduler has to know of a product of `m` rows and `n` columns (as the kernel sees them)
    /// and `k` summands: raster groups of `group` cluster tiles; `clusters` clusters, which share the K
    /// of the first `streamed` tiles.
    pub const fn scheduler(
        &self,
        [m, n, k]: [u32; 3],
        group: u32,
        clusters: u32,
        streamed: u32,
    ) -> TileSchedulerParams {
        let (rows, cols) = (self.bm * self.cluster_m, self.bn * self.cluster_n);
        let tiles = [m.div_ceil(rows), n.div_ceil(cols)];
        TileSchedulerParams::new(tiles, k.div_ceil(self.bk), group, clusters, streamed)
    }

    /// Bytes of A and B in a stage.
    pub const fn stage_bytes(&self) -> u32 {
        (self.bm + self.bn) * self.bk * self.ab.size() as u32
    }
}
