//! The tests of the kernels and of the command, in one program: each module is a subject.
//!
//! tests/gpu_zero_cost.rs is a program of its own: its times are judged to a hundredth, so that nothing
//! else may run. tests/zoo belongs to `warpipe-isa`: it needs only the instructions and the SM model.

#[path = "../common/mod.rs"]
mod common;
#[path = "../../host/tests/common/gpu.rs"]
mod gpu;
#[path = "../common/on_devices.rs"]
mod on_devices;
#[path = "../../host/tests/common/strided.rs"]
mod strided_cases;
#[path = "../common/twin.rs"]
mod twin;
#[path = "../../host/tests/common/typed.rs"]
mod typed_cases;

mod attention_instances;
mod attention_random;
mod ceilings;
mod cli_attention;
mod cli_bad_input;
mod cli_bench;
mod cli_check;
mod cli_gemm;
mod cli_grouped;
mod cli_inspect;
mod cli_linear;
mod cli_new;
mod cli_plan;
mod cli_python;
mod cli_trace;
mod cli_types;
mod docs_counts;
mod examples;
mod gemm_fused;
mod gemm_grouped;
mod gemm_instances;
mod gemm_layouts;
mod gemm_types;
mod gpu_bench;
mod gpu_trace;
mod gpu_tune;
mod image;
mod zero_cost;
