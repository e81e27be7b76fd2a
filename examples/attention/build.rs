//! Compiles the kernels.

fn main() {
    kernel_build::KernelBuilder::new("kernels").arch(kernel_build::Arch::Sm90a).build_or_exit();
}
