//! Provides the image of the GEMM kernels, which `src/lib.rs` embeds: with the feature `build-kernels` it compiles
//! `warpipe-gpu-kernels` for the device, otherwise it takes the image from the package's folder `prebuilt`.

fn main() {
    // A kernel crate, and a program whose kernels are its own, need no image.
    #[cfg(all(feature = "gemm-image", not(feature = "build-kernels")))]
    prebuilt::take();
    #[cfg(feature = "build-kernels")]
    built::build();
}

#[cfg(all(feature = "gemm-image", not(feature = "build-kernels")))]
mod prebuilt {
    use std::path::{Path, PathBuf};
    use std::{env, fs, io, process};

    /// Copies the image of the package to where the library looks for it. Its expression embeds the kernels whose
    /// features are on.
    pub fn take() {
        println!("cargo::rerun-if-changed=prebuilt");
        let [from, to] = ["CARGO_MANIFEST_DIR", "OUT_DIR"]
            .map(|name| PathBuf::from(env::var_os(name).expect("cargo sets it")));
        let from = from.join("prebuilt");
        if let Err(e) = copy(&from, &to) {
            println!(
                "cargo::error=warpipe's sources outside of a package have no compiled kernels ({}: {e}): turn on its \
                 feature `build-kernels`",
                from.display()
            );
            process::exit(1);
        }
    }

    fn copy(from: &Path, to: &Path) -> io::Result<()> {
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
        Ok(())
    }
}

#[cfg(feature = "build-kernels")]
mod built {
    use kernel_build::{Arch, KernelBuilder, PtxasCheck};
    use std::path::PathBuf;

    /// Whether a feature that includes others is on.
    const EVERYTHING: bool = cfg!(feature = "entry-points");
    const ALL_GEMMS: bool = cfg!(feature = "gemm");

    /// Features of the kernels' crate that this one passes on, and whether they are on: the kernels for a Hopper. One that
    /// includes others stands for them: builds that name the same features share their intermediate files, and `.ci/run ptx`
    /// names `entry-points`.
    const HOPPER: [(&str, bool); 16] = [
        ("entry-points", EVERYTHING),
        ("gemm", ALL_GEMMS && !EVERYTHING),
        ("attention", cfg!(feature = "attention") && !EVERYTHING),
        ("gemm-bf16", cfg!(feature = "gemm-bf16") && !ALL_GEMMS),
        ("gemm-f16", cfg!(feature = "gemm-f16") && !ALL_GEMMS),
        ("gemm-bf16-f32", cfg!(feature = "gemm-bf16-f32") && !ALL_GEMMS),
        ("gemm-f16-f32", cfg!(feature = "gemm-f16-f32") && !ALL_GEMMS),
        ("gemm-mixed", cfg!(feature = "gemm-mixed") && !ALL_GEMMS),
        ("gemm-e4m3", cfg!(feature = "gemm-e4m3") && !ALL_GEMMS),
        ("gemm-fused", cfg!(feature = "gemm-fused") && !ALL_GEMMS),
        ("gemm-layouts", cfg!(feature = "gemm-layouts") && !ALL_GEMMS),
        ("gemm-grouped", cfg!(feature = "gemm-grouped") && !ALL_GEMMS),
        ("gemm-e4m3-e4m3", cfg!(feature = "gemm-e4m3-e4m3") && !ALL_GEMMS),
        ("gemm-e5m2", cfg!(feature = "gemm-e5m2") && !ALL_GEMMS),
        ("gemm-int8", cfg!(feature = "gemm-int8") && !ALL_GEMMS),
        ("gemm-tf32", cfg!(feature = "gemm-tf32") && !ALL_GEMMS),
    ];
    /// Those that change all kernels.
    const ALL: [(&str, bool); 2] =
        [("bounded-waits", cfg!(feature = "bounded-waits")), ("stress", cfg!(feature = "stress"))];

    /// Compiles the kernels for the device.
    pub fn build() {
        let mut builder = KernelBuilder::package("warpipe-gpu-kernels").arch(Arch::Sm90a);
        let on = |(feature, on): (&'static str, bool)| on.then_some(feature);
        for feature in ALL.into_iter().filter_map(on) {
            builder = builder.feature(feature);
        }
        for feature in HOPPER.into_iter().filter_map(on) {
            builder = builder.arch_feature(Arch::Sm90a, feature);
        }
        if cfg!(feature = "sm100") {
            for arch in [Arch::Sm100a, Arch::Sm103a] {
                builder = builder.arch(arch).arch_feature(arch, "sm100");
            }
        }
        if cfg!(feature = "stress") {
            // Nobody measures these kernels.
            builder = builder.ptxas(PtxasCheck::Warn);
        }
        builder.build_or_exit();
        if cfg!(feature = "trace") {
            let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
            KernelBuilder::package("warpipe-gpu-kernels")
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
