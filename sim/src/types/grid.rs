//! The shape of a launch, and the limits of the machine that it must keep.

/// A launch: how many CTAs of how many threads, in what clusters.
#[derive(Clone, Debug)]
pub struct Grid<'a> {
    /// CTAs.
    pub grid: [u32; 3],
    /// Threads of a CTA.
    pub block: [u32; 3],
    /// CTAs of a cluster; divides the grid.
    pub cluster: [u32; 3],
    /// CTAs of which an SM's registers must be enough (`.minnctapersm`): with the threads, that gives
    /// the registers of each at entry.
    pub min_ctas: u32,
    /// Dynamic shared memory of a CTA in bytes.
    pub smem_bytes: u32,
    /// Name of the kernel, for reports.
    pub name: &'a str,
}

/// Dynamic shared memory starts here; the chip reserves the first KiB of a CTA.
pub(crate) const SMEM_BASE: u32 = 1024;
/// Most dynamic shared memory that a CTA of sm_90 can have.
pub(crate) const SMEM_MAX: u32 = 227 * 1024;
/// Registers of an SM.
const REGISTER_FILE: u32 = 64 * 1024;

impl Grid<'_> {
    /// Threads of a CTA.
    pub fn threads(&self) -> u32 {
        self.block.iter().product()
    }
    /// CTAs of a cluster.
    pub fn cluster_size(&self) -> u32 {
        self.cluster.iter().product()
    }
    /// Registers per thread at entry: an equal share of the file, as `.maxntid` and `.minnctapersm`
    /// make ptxas choose.
    pub(crate) fn registers_at_entry(&self) -> u32 {
        let threads = self.min_ctas * self.threads().next_multiple_of(32);
        (REGISTER_FILE / threads / 8 * 8).clamp(24, 248)
    }
    /// Clusters per dimension.
    pub(crate) fn clusters(&self) -> [u32; 3] {
        std::array::from_fn(|i| self.grid[i] / self.cluster[i])
    }

    /// Why no GPU would take this launch.
    pub(crate) fn check(&self) -> Result<(), String> {
        let threads: u64 = self.block.iter().map(|&x| u64::from(x)).product();
        if threads == 0 || threads > 1024 {
            return Err(format!("a block of {:?} has {threads} threads; 1 to 1024", self.block));
        }
        let ctas: u64 = self.cluster.iter().map(|&x| u64::from(x)).product();
        if ctas == 0 || ctas > 16 {
            return Err(format!("a cluster of {:?} has {ctas} CTAs; 1 to 16", self.cluster));
        }
        let blocks: u64 = self.grid.iter().map(|&x| u64::from(x)).product();
        if blocks == 0 || blocks > u64::from(u32::MAX) {
            return Err(format!("a grid of {:?} has {blocks} CTAs; 1 to 2^32-1", self.grid));
        }
        if (0..3).any(|i| !self.grid[i].is_multiple_of(self.cluster[i])) {
            return Err(format!(
                "a cluster of {:?} does not divide the grid {:?}",
                self.cluster, self.grid
            ));
        }
        if self.min_ctas == 0 || u64::from(self.min_ctas) * threads > 2048 {
            return Err(format!(
                "{} CTAs of {threads} threads on an SM; 1 to {}",
                self.min_ctas,
                2048 / threads
            ));
        }
        if self.smem_bytes > SMEM_MAX {
            return Err(format!("{} bytes of shared memory; at most {SMEM_MAX}", self.smem_bytes));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_at_entry_are_a_share_of_the_file() {
        let of = |threads, min_ctas| {
            let (grid, block) = ([1; 3], [threads, 1, 1]);
            let grid = Grid { grid, block, cluster: [1; 3], min_ctas, smem_bytes: 0, name: "" };
            grid.registers_at_entry()
        };
        assert_eq!(of(384, 1), 168);
        assert_eq!(of(128, 4), 128);
        assert_eq!(of(32, 1), 248, "at most what an instruction can name");
    }
}
