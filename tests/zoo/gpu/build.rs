//! Compiles the kernels for the device; `src/lib.rs` embeds the image.

use kernel_build::{Arch, KernelBuilder, PtxasCheck};

fn main() {
    // The kernels have bugs, so what the assembler says of their speed is no error.
    let kernels = KernelBuilder::new("../shipped").arch(Arch::Sm90a);
    kernels.ptxas(PtxasCheck::Warn).build_or_exit();
}
