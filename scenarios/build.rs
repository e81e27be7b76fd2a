//! Compiles the scenario kernels for the device; `src/lib.rs` embeds the image.

use kernel_build::{Arch, KernelBuilder};

fn main() {
    // A scenario that hangs is a finding, not the end of the machine's day.
    KernelBuilder::new("kernels").arch(Arch::Sm90a).feature("bounded-waits").build_or_exit();
}
