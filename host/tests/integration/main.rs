//! The tests of the host side, in one program: each module is a subject.

// The kernels of gpu-kernels' own test, which is included below, name it so.
extern crate gpu_kernels as warpipe_gpu_kernels;
extern crate warpipe_host as host;

#[path = "../../../tests/common/blackwell.rs"]
mod blackwell_cases;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/gpu.rs"]
mod gpu;
#[path = "../common/map.rs"]
mod map;
#[path = "../probe/mod.rs"]
mod probe;
#[path = "../common/strided.rs"]
mod strided_cases;
#[path = "../common/typed.rs"]
mod typed_cases;

mod amax_chain;
mod archs;
mod attention_reference;
mod attention_work;
mod blackwell;
mod block_scaled;
mod errors;
mod fused;
mod gemm_array;
mod gemm_chain;
mod gemm_in_turn;
mod gemm_seams;
mod gpu_interop;
mod gpu_launch;
mod grouped;
mod model_attention;
mod model_decode;
mod model_gemm;
mod model_launch;
mod plan;
mod quantised;
mod reference;
mod scaled;
mod strided;
mod tune;
mod typed;
mod views;
