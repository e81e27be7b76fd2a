//! Compiles the kernels.

fn main() {
    warpipe_kernel_build::KernelBuilder::package("own-kernels").build_or_exit();
}
