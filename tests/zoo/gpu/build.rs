//! Compiles the kernels for the device; `src/lib.rs` embeds the image.

use kernel_build::{Arch, KernelBuilder};

fn main() {
    KernelBuilder::new("../shipped").arch(Arch::Sm90a).build_or_exit();
}
