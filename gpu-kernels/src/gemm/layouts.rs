//! The compiled kernels for other layouts of the operands, and for batches.
//!
//! An operand is K-major, as in the other tables, or MN-major. TMA loads it as it lies in memory, and wgmma reads it so
//! from shared memory: nothing is copied. The kernels are named as BLAS names the layouts, where matrices are column-major
//! and the letters say which operand is transposed:
//!
//! ```text
//! name   A in memory       B in memory       torch, of contiguous a and b
//! tn     [M, K]  K-major   [N, K]  K-major   a @ b.T      as in the other tables
//! tt     [M, K]  K-major   [K, N]  N-major   a @ b
//! nn     [K, M]  M-major   [N, K]  K-major   a.T @ b.T
//! nt     [K, M]  M-major   [K, N]  N-major   a.T @ b
//! ```
//!
//! All of them compute batches ([`Rank3`](super::rank::Rank3)): one product is a batch of one. So `tn` is here too.
#![forbid(unsafe_code)]
// Without the feature the table is empty.
#![cfg_attr(any(not(feature = "gemm-layouts"), feature = "trace"), allow(unused_imports))]

use super::Linear;
use half::{bf16, f16};

/// Compiles each row for the four pairs of majors. A kernel is named after its type, its layout and its row.
macro_rules! layouts {
    ($(#[$doc:meta])* pub static $table:ident: $epilogue:ty; $($t:ident $name:ident($bm:literal x $bn:literal, cluster $cm:literal x $cn:literal, $mainloop:ident $(, with $c:ident)?);)*) => {
        pastey::paste! {
            crate::gemm_kernels! {
                $(#[$doc])*
                pub static $table: $epilogue;
                $(
                    #[cfg(feature = "gemm-layouts")]
                    [<gemm_layout_ $t _tn $name>]: $t => $t, $bm x $bn, cluster $cm x $cn, $mainloop $(, with $c)?, majors KMajor x KMajor, rank 3;
                    #[cfg(feature = "gemm-layouts")]
                    [<gemm_layout_ $t _tt $name>]: $t => $t, $bm x $bn, cluster $cm x $cn, $mainloop $(, with $c)?, majors KMajor x MnMajor, rank 3;
                    #[cfg(feature = "gemm-layouts")]
                    [<gemm_layout_ $t _nn $name>]: $t => $t, $bm x $bn, cluster $cm x $cn, $mainloop $(, with $c)?, majors MnMajor x KMajor, rank 3;
                    #[cfg(feature = "gemm-layouts")]
                    [<gemm_layout_ $t _nt $name>]: $t => $t, $bm x $bn, cluster $cm x $cn, $mainloop $(, with $c)?, majors MnMajor x MnMajor, rank 3;
                )*
            }
        }
    };
}

// A device build that records traces has none of these.
#[cfg(not(all(feature = "trace", target_arch = "nvptx64")))]
layouts! {
    /// The GEMM kernels of this crate for each layout of the operands, and for batches.
    pub static LAYOUT_INSTANCES: Linear;
    // The large tile is the fastest for large products, and it splits K (stream-K) where there are few tiles. The smaller
    // tile hides its epilogue, and wastes less of small matrices.
    bf16 _128x256_2x1(128 x 256, cluster 2 x 1, SplitN);
    bf16 _128x128_1x1_pp(128 x 128, cluster 1 x 1, Pingpong);
    bf16 _128x128_1x1_pp_c(128 x 128, cluster 1 x 1, Pingpong, with C);
    f16 _128x128_1x1_pp(128 x 128, cluster 1 x 1, Pingpong);
    f16 _128x128_1x1_pp_c(128 x 128, cluster 1 x 1, Pingpong, with C);
}
