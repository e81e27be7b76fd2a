//! The products of the suite "grouped".

use crate::error::Error;
use host::Dtype;
use host::gemm::{GemmProblem, GroupedProblem, GroupedRows};
use serde::Serialize;
use std::fmt;

/// Type of operands and results.
pub(super) const DTYPE: Dtype = Dtype::Bf16;
/// Operands begin at multiples of this many elements: 256 bytes.
const ALIGN: usize = 128;
/// Most sets of operands in rotation.
const MOST_SETS: u64 = 16;

/// A product of the suite "grouped".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct GroupedShape {
    /// Groups: matrices of B.
    pub groups: u64,
    /// Mean number of rows of a group. Uneven groups have a little more.
    pub mean: u64,
    /// Columns of D.
    pub n: u64,
    /// Columns of A and B.
    pub k: u64,
    /// Whether all groups have as many rows. Otherwise they have up to three times the mean, and each fourth one has none.
    pub even: bool,
}

/// The products of the suite "grouped": DeepGEMM's for prefill and for decoding, and uneven ones.
pub const SHAPES: [GroupedShape; 8] = [
    shape(4, 8192, 4096, 7168, true),
    shape(8, 4096, 7168, 2048, true),
    shape(128, 64, 1536, 2048, true),
    shape(64, 256, 4096, 2048, true),
    shape(8, 1000, 4096, 7168, false),
    shape(64, 100, 4096, 2048, false),
    shape(128, 20, 1536, 2048, false),
    shape(32, 5, 7168, 2048, false),
];

const fn shape(groups: u64, mean: u64, n: u64, k: u64, even: bool) -> GroupedShape {
    GroupedShape { groups, mean, n, k, even }
}

impl fmt::Display for GroupedShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { groups, mean, n, k, even } = self;
        let rows = if *even { "even" } else { "uneven" };
        write!(f, "{groups}x{mean}x{n}x{k} {rows}")
    }
}

impl GroupedShape {
    /// Rows of each group.
    pub fn sizes(&self) -> Vec<u64> {
        let Self { groups, mean, even, .. } = *self;
        if even {
            return vec![mean; groups as usize];
        }
        let size =
            |g: u64| if g.is_multiple_of(4) { 0 } else { g * 37 % groups * 3 * mean / groups };
        let mut sizes: Vec<u64> = (0..groups).map(size).collect();
        let rest = groups.saturating_mul(mean).saturating_sub(sizes.iter().sum());
        if let Some(last) = sizes.last_mut() {
            *last += rest;
        }
        sizes
    }

    /// The problem that a plan is made for.
    pub fn problem(&self) -> GroupedProblem {
        let Self { groups, n, k, .. } = *self;
        let rows = GroupedRows::Contiguous { total: self.sizes().iter().sum() };
        GroupedProblem { groups, rows, n, k, dtype: DTYPE }
    }

    /// Checks the sizes.
    pub(super) fn check(&self) -> Result<(), Error> {
        let Self { groups, mean, n, k, .. } = *self;
        for (what, value) in [("groups", groups), ("rows", mean), ("N", n), ("K", k)] {
            if value == 0 {
                return Err(Error::Setting { what, value, least: 1 });
            }
        }
        Ok(self.problem().check().map_err(host::Error::from)?)
    }

    /// The plain product of a group of so many rows.
    pub(super) fn plain(&self, m: u64) -> GemmProblem {
        GemmProblem { m, n: self.n, k: self.k, ab: DTYPE, out: DTYPE, beta_c: false }
    }

    /// Elements of A and of B, rounded up to where another operand may begin.
    pub(super) fn elements(&self) -> [usize; 2] {
        let bytes = |operand| self.problem().bytes(operand) as usize / DTYPE.size();
        ['A', 'B'].map(|operand| bytes(operand).next_multiple_of(ALIGN))
    }

    /// Sets of operands in rotation, so that nothing of a set is left in the L2 cache when it is used again.
    pub(super) fn sets(&self, l2_bytes: u64) -> usize {
        let bytes = self.elements().iter().sum::<usize>() * DTYPE.size();
        crate::rotating_sets(bytes, l2_bytes, MOST_SETS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_products_have_groups_of_different_sizes_and_empty_ones() {
        for shape in SHAPES {
            let sizes = shape.sizes();
            assert_eq!(sizes.len() as u64, shape.groups);
            let (rows, mean) = (sizes.iter().sum::<u64>(), shape.groups * shape.mean);
            assert!(rows >= mean && rows * 4 < mean * 5, "{shape}: {rows}");
            assert_eq!(sizes.iter().all(|size| *size == shape.mean), shape.even);
            assert_eq!(sizes.contains(&0), !shape.even, "{shape}");
            assert!(shape.check().is_ok(), "{shape}");
        }
        let said = shape(4, 8, 16, 0, true).check().unwrap_err().to_string();
        assert_eq!(said, "benchmark: K = 0; the least value is 1");
        assert_eq!(SHAPES.iter().filter(|shape| shape.even).count(), 4);
        assert_eq!(SHAPES[7].to_string(), "32x5x7168x2048 uneven");
    }
}
