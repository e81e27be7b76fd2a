//! Compiles `gpu-kernels` for the device; `src/lib.rs` embeds the image.

use kernel_build::{Arch, KernelBuilder};

fn main() {
    let mut builder = KernelBuilder::new("gpu-kernels").arch(Arch::Sm90a);
    if std::env::var_os("CARGO_FEATURE_BOUNDED_WAITS").is_some() {
        builder = builder.feature("bounded-waits");
    }
    builder.build_or_exit();
}
