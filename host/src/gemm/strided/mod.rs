//! Products of operands in any layout, and batches of products: D[i] = alpha * A[i] * B[i]^T.
//!
//! A is [M, K] and B is [N, K] for each of `batch` matrices. Each is K-major or MN-major in memory, and D is row-major or
//! column-major. TMA reads the operands as they are in memory: nothing is copied. An operand that TMA can't read is refused,
//! and the error has the wrong number. (cuBLAS: `cublasGemmStridedBatchedEx`; torch: `bmm`, and `matmul` of transposed views.)
//!
//! [`Gemm::strided`](crate::gemm::Gemm::strided) loads the kernels.

mod error;
mod info;
mod pick;
mod plan;
mod problem;
mod run;
mod view;

pub use error::StridedError;
pub use info::StridedInfo;
pub use plan::{StridedGemm, StridedPlan};
pub use problem::{Layout, Major, Order, StridedProblem};
pub use run::BoundStrided;
pub use view::{Strided, StridedMut};
