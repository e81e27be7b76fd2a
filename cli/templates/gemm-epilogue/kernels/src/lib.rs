//! D = max(A·Bᵀ + bias, 0): warpipe's GEMM with an epilogue of this crate.
//!
//! cargo compiles this crate twice: for the GPU, and for the host, where the SM model runs it.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]
#![forbid(unsafe_code)]

use warpipe::gpu_kernels::gemm::Epilogue;
use warpipe::gpu_kernels::gemm_kernels;
use warpipe::pipeline::{grid::DependentSlice, mma::Fragment};
use warpipe::prelude::*;

/// The epilogue max(sum + bias, 0), with one bias for each column of D.
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct BiasRelu<'a> {
    /// One value for each column of D.
    pub bias: DependentSlice<'a, f32>,
}

impl Epilogue for BiasRelu<'_> {
    /// A fragment is 64 rows x 16 columns of A·Bᵀ, eight values per thread. `c` is the same place of C in kernels
    /// that are declared `with C`.
    #[inline(always)]
    fn visit(&self, sum: Fragment, _c: Option<Fragment>) -> Fragment {
        let bias = self.bias.by(&sum);
        sum.map_at(|x, _row, column| (x + bias.get(column as usize).unwrap_or(0.0)).max(0.0))
    }
}

// One line per kernel: types of A and B => D, tile of D, cluster, main loop. The host picks the fastest for a shape.
gemm_kernels! {
    /// The kernels of this crate.
    pub static KERNELS: BiasRelu<'static>;
    bias_relu_128x256: bf16 => bf16, 128 x 256, cluster 2 x 1, SplitN;
    bias_relu_128x128: bf16 => bf16, 128 x 128, cluster 1 x 1, Pingpong;
    bias_relu_64x64: bf16 => bf16, 64 x 64, cluster 1 x 1, Cooperative;
}
