//! The description of a plan with layouts and batches, as text and as JSON.

use super::problem::{Order, StridedProblem};
use crate::device::Device;
use crate::gemm::{KernelInfo, StagingInfo};
use crate::tensor_error::dtype_name;
use serde::Serialize;
use std::fmt;

/// Description of a plan, as text and as JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StridedInfo {
    /// The device.
    pub device: String,
    /// Matrices of the batch.
    pub batch: u64,
    /// Rows of D.
    pub m: u64,
    /// Columns of D.
    pub n: u64,
    /// Columns of A and B.
    pub k: u64,
    /// Type of all operands.
    pub dtype: &'static str,
    /// The layouts of A and B, with their BLAS name.
    pub layout: String,
    /// How D lies in memory. If it is column-major, the kernel gets B as its A.
    pub order: Order,
    /// Whether C is added.
    pub with_c: bool,
    /// The kernel, or `None` when D is empty. Its tiles are those of all matrices.
    pub kernel: Option<KernelInfo>,
    /// The copies that each run makes if no operand has gaps. With views it may make others
    /// ([`BoundStrided::copied`](super::BoundStrided::copied)). `bytes` counts all matrices, even if one serves all products.
    pub staging: Vec<StagingInfo>,
}

impl StridedInfo {
    pub(super) fn of(device: &Device, problem: &StridedProblem) -> Self {
        let StridedProblem { batch, m, n, k, dtype, layout, order, beta_c: with_c } = *problem;
        let (device, dtype, layout) = (device.describe(), dtype_name(dtype), layout.to_string());
        let (kernel, staging) = (None, Vec::new());
        Self { device, batch, m, n, k, dtype, layout, order, with_c, kernel, staging }
    }
}

impl fmt::Display for StridedInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { batch, m, n, k, dtype, layout, .. } = self;
        let order = match self.order {
            Order::RowMajor => "row-major",
            Order::ColumnMajor => "column-major",
        };
        let c = if self.with_c { " + C" } else { "" };
        writeln!(
            f,
            "D[{batch}, {m}, {n}] {order} = A[{batch}, {m}, {k}] B[{batch}, {n}, {k}]^T{c} {dtype}, layout {layout}, on {}",
            self.device
        )?;
        match &self.kernel {
            Some(kernel) => write!(f, "{kernel}")?,
            None => writeln!(f, "  D is empty: nothing is launched")?,
        }
        for copy in &self.staging {
            write!(f, "{copy}")?;
        }
        if *k == 0 && self.kernel.is_some() {
            writeln!(f, "  K is 0: one k tile of zeros is multiplied")?;
        }
        Ok(())
    }
}
