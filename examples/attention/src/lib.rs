//! Attention of your own: how the host runs the kernels of docs/fused-kernel.md, and their tests on the SM model.

use warpipe::isa::kernel::Image;

pub mod alibi;
pub mod heads;
pub mod reference;
pub mod sigmoid;
pub mod small;

/// The kernels of `attention-example-kernels`.
pub static IMAGE: Image = warpipe::kernel_image!("attention_example_kernels");
