//! Compiles the kernels for the GPU. `warpipe::kernel_image!` in `src/lib.rs` embeds the result.

use warpipe_kernel_build::{Arch, KernelBuilder};

fn main() {
    KernelBuilder::new("kernels")
        .arch(Arch::Sm90a)
        .build_or_exit();
}
