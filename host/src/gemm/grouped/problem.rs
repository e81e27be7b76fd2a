//! The sizes of a grouped product, and their checks.

use super::GroupedError;
use crate::gemm::GemmProblem;
use crate::tensor_error::dtype_name;
use gpu_kernels::gemm::Instance;
use gpu_kernels::gemm::divmod::FastDivmod;
use isa::kernel::Dtype;

/// Rows of A and D, which the device divides into groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum GroupedRows {
    /// Groups follow one another. The ends are rows of A: group g has the rows from the end of group g - 1, or from 0, to
    /// its own end (torch's `offs`). Rows of D after the last end are not written.
    Contiguous {
        /// Rows of A and D.
        total: u64,
    },
    /// Each group has room for `max` rows: A is [groups, max, K] and D is [groups, max, N]. The ends are the row counts of
    /// the groups (DeepGEMM's `masked_m`). Rows of D after them are not written.
    Masked {
        /// Rows that a group has room for.
        max: u64,
        /// The expected mean number of rows of a group, which determines the kernel (DeepGEMM's `expected_m`).
        expected: u64,
    },
}

/// Sizes and type of a grouped product.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct GroupedProblem {
    /// Groups: matrices of B.
    pub groups: u64,
    /// Rows of A and D.
    pub rows: GroupedRows,
    /// Rows of each B, and columns of D: a multiple of 8.
    pub n: u64,
    /// Columns of A and B: a multiple of 8, at least 8.
    pub k: u64,
    /// Element type of A, B and D: bf16.
    pub dtype: Dtype,
}

impl GroupedProblem {
    /// Rows of A and D, of all groups.
    pub fn total_rows(&self) -> u64 {
        match self.rows {
            GroupedRows::Contiguous { total } => total,
            GroupedRows::Masked { max, .. } => self.groups.saturating_mul(max),
        }
    }

    /// Rows that a group has on average, rounded up.
    pub fn mean_rows(&self) -> u64 {
        match self.rows {
            GroupedRows::Contiguous { total } => total.div_ceil(self.groups.max(1)),
            GroupedRows::Masked { max, expected } => expected.min(max),
        }
    }

    /// Bytes of operand 'A', 'B' or 'D'.
    pub fn bytes(&self, operand: char) -> u64 {
        self.matrix(operand).bytes(operand)
    }

    /// The operand as that of one product: B has the rows of all groups.
    pub(super) fn matrix(&self, operand: char) -> GemmProblem {
        let Self { groups, n, k, dtype, .. } = *self;
        let n = if operand == 'B' { groups.saturating_mul(n) } else { n };
        GemmProblem { m: self.total_rows(), n, k, ab: dtype, out: dtype, beta_c: false }
    }

    /// The largest number of cluster tiles that the groups can have together, for cluster tiles of `rows` x `columns`
    /// elements of D.
    pub(super) fn most_tiles(&self, [rows, columns]: [u64; 2]) -> u64 {
        let tiles_m = match self.rows {
            GroupedRows::Contiguous { total } => total / rows + self.groups.min(total),
            GroupedRows::Masked { max, .. } => self.groups * max.div_ceil(rows),
        };
        tiles_m * self.n.div_ceil(columns)
    }

    /// Checks the sizes and the type.
    ///
    /// # Errors
    /// [`GroupedError`] for what the kernels do not compute.
    pub fn check(&self) -> Result<(), GroupedError> {
        if self.dtype != Dtype::Bf16 {
            return Err(GroupedError::Dtype { have: dtype_name(self.dtype) });
        }
        if self.groups == 0 {
            return Err(GroupedError::NoGroups);
        }
        if self.k == 0 {
            return Err(GroupedError::NoK);
        }
        for (size, value) in [('N', self.n), ('K', self.k)] {
            if !value.is_multiple_of(8) {
                return Err(GroupedError::Unit { size, value });
            }
        }
        // Kernels divide rows and tile numbers by multiplying (`FastDivmod`), and add a tile's rows before they do.
        let (rows, coordinates) = (u64::from(FastDivmod::DIVIDENDS) - 1024, (1 << 31) - 1024);
        let b_rows = self.groups.saturating_mul(self.n);
        let limits = [
            ("rows of A", self.total_rows(), rows),
            ("groups", self.groups, rows),
            ("K", self.k, coordinates),
            ("groups x N", b_rows, coordinates),
        ];
        for (what, value, limit) in limits {
            if value > limit {
                return Err(GroupedError::TooLarge { what, value, limit });
            }
        }
        for (what, operand) in [("bytes of A", 'A'), ("bytes of B", 'B'), ("bytes of D", 'D')] {
            let (value, limit) = (self.bytes(operand), (1 << 47) - 1);
            if value > limit {
                return Err(GroupedError::TooLarge { what, value, limit });
            }
        }
        // The smallest tile of the table.
        let (value, limit) = (self.most_tiles([16, 64]), u64::from(FastDivmod::DIVIDENDS) - 1);
        if value > limit {
            return Err(GroupedError::TooLarge { what: "tiles of D", value, limit });
        }
        Ok(())
    }
}

/// Rows and columns of D in a cluster tile.
pub(super) fn cluster_tile(i: &Instance) -> [u64; 2] {
    let [m, n] = [i.bm * i.cluster_m, i.bn * i.cluster_n].map(u64::from);
    if i.swap_ab { [n, m] } else { [m, n] }
}
