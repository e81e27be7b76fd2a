//! Compiles `gpu-kernels` for the device; `src/lib.rs` embeds the image.

use kernel_build::{Arch, KernelBuilder, PtxasCheck};
use std::path::PathBuf;

fn main() {
    let mut builder = KernelBuilder::new("gpu-kernels").arch(Arch::Sm90a).feature("entry-points");
    if std::env::var_os("CARGO_FEATURE_BOUNDED_WAITS").is_some() {
        builder = builder.feature("bounded-waits");
    }
    builder.build_or_exit();
    if std::env::var_os("CARGO_FEATURE_TRACE").is_some() {
        let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
        KernelBuilder::new("gpu-kernels")
            .arch(Arch::Sm90a)
            .feature("trace")
            // Where the records go: the host reads that of the kernel which it ran.
            .own_variable("WARPIPE_TRACE")
            // A spilled word would not change the pattern; .ci/run lets none through.
            .ptxas(PtxasCheck::Warn)
            .out_dir(out.join("traced"))
            .build_or_exit();
    }
}
