//! Compiles the litmus kernels for the device; `src/lib.rs` embeds the images.

use kernel_build::{Arch, KernelBuilder};
use std::path::PathBuf;

fn main() {
    KernelBuilder::new("kernels").arch(Arch::Sm90a).build_or_exit();
    if cfg!(feature = "sm100") {
        let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
        let mut builder = KernelBuilder::new("blackwell").out_dir(out.join("blackwell"));
        if cfg!(feature = "bounded-waits") {
            builder = builder.feature("bounded-waits");
        }
        builder.arch(Arch::Sm100a).arch(Arch::Sm103a).build_or_exit();
    }
}
