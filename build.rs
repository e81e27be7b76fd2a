//! Provides the image of the GEMM kernels, which `src/lib.rs` embeds: with the feature `build-kernels` it compiles
//! `gpu-kernels` for the device, otherwise it takes the image from the package's folder `prebuilt`.

fn main() {
    // A kernel crate, and a program whose kernels are its own, need no image.
    #[cfg(all(feature = "gemm-image", not(feature = "build-kernels")))]
    prebuilt::take();
    #[cfg(feature = "build-kernels")]
    built::build();
}

#[cfg(all(feature = "gemm-image", not(feature = "build-kernels")))]
mod prebuilt {
    use std::path::PathBuf;
    use std::{env, fs, process};

    /// The files of the image; the first one names the second.
    const FILES: [&str; 2] = ["warpipe_gpu_kernels.rs", "warpipe_gpu_kernels.deflate"];

    /// Copies the image of the package to where the library looks for it.
    pub fn take() {
        println!("cargo::rerun-if-changed=prebuilt");
        let [from, to] = ["CARGO_MANIFEST_DIR", "OUT_DIR"]
            .map(|name| PathBuf::from(env::var_os(name).expect("cargo sets it")));
        let from = from.join("prebuilt");
        for file in FILES {
            if let Err(e) = fs::copy(from.join(file), to.join(file)) {
                println!(
                    "cargo::error=warpipe's sources outside of a package have no compiled kernels ({}: {e}): turn on its \
                     feature `build-kernels`",
                    from.join(file).display()
                );
                process::exit(1);
            }
        }
    }
}

#[cfg(feature = "build-kernels")]
mod built {
    use kernel_build::{Arch, KernelBuilder, PtxasCheck};
    use std::path::PathBuf;

    /// Compiles the kernels for the device.
    pub fn build() {
        let mut builder =
            KernelBuilder::new("gpu-kernels").arch(Arch::Sm90a).feature("entry-points");
        if cfg!(feature = "bounded-waits") {
            builder = builder.feature("bounded-waits");
        }
        builder.build_or_exit();
        if cfg!(feature = "trace") {
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
}
