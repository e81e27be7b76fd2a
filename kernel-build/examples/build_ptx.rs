//! Builds a kernel crate's PTX outside a build script:
//! `cargo run -p warpipe-kernel-build --example build_ptx -- <crate dir> <out dir> [feature …]`.
//!
//! Writes `<crate>.ptx` with all kernels, and each kernel's `<kernel>.cubin` if there is a ptxas.
//! With `LINE_INFO` set, the PTX has the source line of each instruction.
//! With `KEEP` set, the LLVM modules (the crate's unoptimised one, each kernel's before and after the optimiser) are
//! kept beside the PTX. With `PTXAS_WARN` set, what ptxas finds is shown, and is not an error. `OWN_VARIABLE` names a
//! variable of which each kernel has its own. `ARCH` is `sm_90a` (the default), `sm_100a` or `sm_103a`.

extern crate warpipe_kernel_build as kernel_build;

use kernel_build::{Arch, KernelBuilder, PtxasCheck};
use std::{env, path::PathBuf, process::ExitCode};

fn main() -> ExitCode {
    let mut args = env::args_os().skip(1);
    let (Some(crate_dir), Some(out_dir)) = (args.next(), args.next()) else {
        eprintln!("usage: build_ptx <crate dir> <out dir> [feature ...]");
        return ExitCode::from(2);
    };
    let absolute = |path| std::path::absolute(PathBuf::from(path)).expect("a working directory");
    let (crate_dir, out_dir) = (absolute(crate_dir), absolute(out_dir));
    let set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    let mut builder = KernelBuilder::new(crate_dir)
        .out_dir(&out_dir)
        .keep_intermediate(set("KEEP"))
        .line_info(set("LINE_INFO"))
        .cubin(true)
        .ptxas(if set("PTXAS_WARN") { PtxasCheck::Warn } else { PtxasCheck::Strict });
    if let Some(name) = env::var_os("OWN_VARIABLE") {
        builder = builder.own_variable(name.to_string_lossy());
    }
    if let Some(name) = env::var_os("ARCH") {
        let Some(arch) = Arch::named(&name.to_string_lossy()) else {
            eprintln!("error: ARCH is {}: right is sm_90a, sm_100a or sm_103a", name.display());
            return ExitCode::from(2);
        };
        builder = builder.arch(arch);
    }
    for feature in args {
        builder = builder.feature(feature.to_string_lossy());
    }
    match builder.build() {
        Ok(image) => {
            for warning in &image.warnings {
                eprintln!("{warning}");
            }
            println!("{} ({} bytes, {})", image.ptx_path.display(), image.ptx.len(), image.arch);
            for kernel in &image.kernels {
                let usage = image.ptxas.as_ref().and_then(|(_, report)| {
                    report.kernels.iter().find(|usage| usage.kernel == kernel.name)
                });
                let registers =
                    usage.map_or(String::new(), |u| format!(", {} registers", u.registers));
                println!(
                    "  {}: {} threads, cluster {:?}, {} bytes of shared memory, {} parameters{registers}",
                    kernel.name,
                    kernel.threads,
                    kernel.cluster,
                    kernel.smem_bytes,
                    kernel.params.len()
                );
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
