//! The table of the compiled GEMMs for Blackwell: what a launch must know beside a kernel's description.

#[cfg(feature = "sm100")]
use isa::kernel::Kernel;
use isa::kernel::KernelDesc;

/// A compiled GEMM, and how it is launched.
///
/// The types of the operands and the columns of a k tile are those of the kernel's tensor maps.
#[derive(Clone, Copy)]
pub struct Instance {
    /// The kernel.
    pub desc: &'static KernelDesc,
    /// Rows and columns of D that a cluster computes at a time.
    pub cluster_tile: [u32; 2],
    /// Whether the hardware hands out the tiles, so that the grid has a cluster for each. Otherwise it is persistent.
    pub launch_control: bool,
    /// Whether the operands have block scales: two tensor maps of [`ScaleBlocks`](pipeline::tile::ScaleBlocks) before D's.
    pub block_scaled: bool,
    /// Values of A and B in an element of their tensor maps: 2 for NVFP4, whose elements are bytes
    /// ([`E2m1x2`](isa::E2m1x2)). K counts values.
    pub packing: u32,
}

#[cfg(feature = "sm100")]
impl Instance {
    const fn of<K: Kernel>(rows: u32, columns: u32) -> Self {
        let desc = const { &K::DESC };
        let cluster_tile = [rows, columns];
        Self { desc, cluster_tile, launch_control: false, block_scaled: false, packing: 1 }
    }
}

/// The compiled kernels.
#[cfg(feature = "sm100")]
pub static INSTANCES: &[Instance] = {
    use super::kernels::*;
    use super::launch_control::kernels::*;
    use super::{block_scaled::kernels::*, pair_block_scaled::kernels::*};
    use super::{pair::kernels::*, pair_launch_control::kernels::*};
    const fn clc(of: Instance) -> Instance {
        Instance { launch_control: true, ..of }
    }
    const fn mx(of: Instance) -> Instance {
        Instance { block_scaled: true, ..of }
    }
    const fn nvf4(of: Instance) -> Instance {
        Instance { packing: 2, ..mx(of) }
    }
    &[
        Instance::of::<gemm_sm100_bf16_bf16_128x256_1x1>(128, 256),
        Instance::of::<gemm_sm100_bf16_bf16_128x256_2x1>(256, 256),
        Instance::of::<gemm_sm100_bf16_f16_128x256_1x1>(128, 256),
        Instance::of::<gemm_sm100_bf16_f32_128x256_1x1>(128, 256),
        Instance::of::<gemm_sm100_f16_f16_128x256_1x1>(128, 256),
        Instance::of::<gemm_sm100_f16_f16_128x256_2x1>(256, 256),
        Instance::of::<gemm_sm100_f16_bf16_128x256_1x1>(128, 256),
        Instance::of::<gemm_sm100_f16_f32_128x256_1x1>(128, 256),
        Instance::of::<gemm_sm100_e4m3_bf16_128x256_1x1>(128, 256),
        Instance::of::<gemm_sm100_e4m3_bf16_128x256_2x1>(256, 256),
        Instance::of::<gemm_sm100_e4m3_f32_128x256_1x1>(128, 256),
        Instance::of::<gemm_sm100_tf32_f32_128x256_1x1>(128, 256),
        Instance::of::<gemm_sm100_bf16_bf16_256x256_2sm>(256, 256),
        Instance::of::<gemm_sm100_f16_f16_256x256_2sm>(256, 256),
        Instance::of::<gemm_sm100_e4m3_bf16_256x256_2sm>(256, 256),
        clc(Instance::of::<gemm_sm100_bf16_bf16_128x256_1x1_clc>(128, 256)),
        clc(Instance::of::<gemm_sm100_bf16_bf16_128x256_2x1_clc>(256, 256)),
        clc(Instance::of::<gemm_sm100_bf16_bf16_256x256_2sm_clc>(256, 256)),
        mx(Instance::of::<gemm_sm100_e4m3_bf16_128x128_mx>(128, 128)),
        nvf4(Instance::of::<gemm_sm100_nvf4_bf16_128x128>(128, 128)),
        mx(Instance::of::<gemm_sm100_e4m3_bf16_256x128_2sm_mx>(256, 128)),
        nvf4(Instance::of::<gemm_sm100_nvf4_bf16_256x128_2sm>(256, 128)),
    ]
};
