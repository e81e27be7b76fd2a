//! Products of operands in any layout, and batches of products: D[i] = alpha * A[i] * B[i]^T + beta * C[i].
//!
//! A is [M, K] and B is [N, K] for each of `batch` matrices. Each is K-major or MN-major in memory, and C and D are row-major or
//! column-major. TMA reads the operands as they are in memory. It can't if an address, a pitch or a stride is not a multiple of
//! 16 bytes, or, for D, the bytes of a line: then each run copies the operand, and the plan says so. (cuBLAS:
//! `cublasGemmStridedBatchedEx`; torch: `bmm`, `baddbmm`, and `matmul` of transposed views.)
//!
//! [`Gemm::strided`](crate::gemm::Gemm::strided) loads the kernels.

mod error;
mod info;
mod pick;
mod plan;
mod problem;
mod run;
mod staging;
mod view;

pub use error::StridedError;
pub use info::StridedInfo;
pub use plan::{StridedGemm, StridedPlan};
pub use problem::{Layout, Major, Order, StridedProblem};
pub use run::BoundStrided;
pub use view::{Strided, StridedMut};
