//! Where a cluster lies in its grid, and how large it is.

use crate::types::grid::Grid;

/// The shape of a launch, seen from one of its clusters.
pub(crate) struct Shape {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub cluster: [u32; 3],
    /// Coordinates of the cluster among the clusters.
    pub coord: [u32; 3],
    /// Linear index of the cluster in the grid.
    pub index: u32,
    pub smem_bytes: u32,
    /// Registers per thread at entry.
    pub registers: u32,
    /// SMs of the machine.
    pub sms: u32,
    /// Name of the kernel.
    pub name: String,
}

impl Shape {
    /// The cluster of this linear index.
    pub fn new(grid: &Grid<'_>, index: u32, sms: u32) -> Self {
        let per = grid.clusters();
        Self {
            grid: grid.grid,
            block: grid.block,
            cluster: grid.cluster,
            coord: [index % per[0], index / per[0] % per[1], index / (per[0] * per[1])],
            index,
            smem_bytes: grid.smem_bytes,
            registers: grid.registers_at_entry(),
            sms,
            name: grid.name.to_owned(),
        }
    }

    /// The first CTA of the cluster of a linear index: its coordinates in the grid.
    pub fn first_cta(&self, index: u32) -> [u32; 3] {
        let per: [u32; 3] = std::array::from_fn(|i| self.grid[i] / self.cluster[i]);
        let at = [index % per[0], index / per[0] % per[1], index / (per[0] * per[1])];
        std::array::from_fn(|i| at[i] * self.cluster[i])
    }

    /// CTAs of the cluster.
    pub fn ctas(&self) -> u32 {
        self.cluster.iter().product()
    }

    /// Threads of a CTA.
    pub fn block_threads(&self) -> u32 {
        self.block.iter().product()
    }

    /// Warps of a CTA.
    pub fn warps_per_cta(&self) -> u32 {
        self.block_threads().div_ceil(32)
    }

    /// Threads of the cluster.
    pub fn threads(&self) -> u32 {
        self.ctas() * self.block_threads()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_lie_in_the_grid_with_x_first() {
        let grid = Grid {
            grid: [8, 6, 2],
            block: [100, 1, 1],
            cluster: [2, 3, 1],
            min_ctas: 1,
            smem_bytes: 0,
            name: "",
        };
        let shape = Shape::new(&grid, 13, 132);
        assert_eq!(shape.coord, [1, 1, 1]);
        assert_eq!(shape.first_cta(13), [2, 3, 1]);
        assert_eq!((shape.ctas(), shape.warps_per_cta(), shape.threads()), (6, 4, 600));
    }
}
