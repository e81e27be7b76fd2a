//! D = gelu(A·Bᵀ + bias): warpipe's GEMM with an epilogue of your own.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]
#![forbid(unsafe_code)]

use gpu_kernels::gemm::fusion::{Activated, GeluTanh, PerColBias, Then};
use gpu_kernels::gemm::{Epilogue, Linear};
use half::bf16;
use isa::kernel::KernelArg;
use pipeline::{grid::DependentSlice, mma::Fragment};

/// The epilogue gelu(sum + bias), with one bias for each column of D.
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct BiasGelu<'a> {
    /// One value for each column of D.
    pub bias: DependentSlice<'a, f32>,
}

impl Epilogue for BiasGelu<'_> {
    #[inline(always)]
    fn visit(&self, sum: Fragment, _c: Option<Fragment>) -> Fragment {
        let bias = self.bias.by(&sum);
        sum.map_at(|x, _row, column| gelu(x + bias.get(column as usize).unwrap_or(0.0)))
    }
}

/// The tanh approximation of GELU.
#[inline(always)]
fn gelu(x: f32) -> f32 {
    let inner = 0.797_884_6 * (x + 0.044715 * x * x * x);
    0.5 * x * (1.0 + isa::math::tanh_approx(inner))
}

gpu_kernels::gemm_kernels! {
    /// All kernels of this crate's image.
    pub static KERNELS: BiasGelu<'static>;
    bias_gelu_128x256: bf16 => bf16, 128 x 256, cluster 2 x 1, SplitN;
    bias_gelu_128x128: bf16 => bf16, 128 x 128, cluster 1 x 1, Pingpong;
    bias_gelu_64x64: bf16 => bf16, 64 x 64, cluster 1 x 1, Cooperative;
    bias_gelu_16x64t: bf16 => bf16, 64 x 16, cluster 1 x 1, Cooperative, operands swapped;
}

/// The same with warpipe's parts: gelu(alpha · sum + bias).
pub type Chain = Activated<Then<Linear, PerColBias<'static, f32>>, GeluTanh>;

gpu_kernels::gemm_kernels! {
    /// The kernels with this epilogue.
    pub static CHAINED: Chain;
    chain_128x256: bf16 => bf16, 128 x 256, cluster 2 x 1, SplitN;
    chain_128x128: bf16 => bf16, 128 x 128, cluster 1 x 1, Pingpong;
}
