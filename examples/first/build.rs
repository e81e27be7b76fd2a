//! Compiles the kernels.

use warpipe_kernel_build::{Arch, KernelBuilder};

fn main() {
    KernelBuilder::new("kernels").arch(Arch::Sm90a).build_or_exit();
}
