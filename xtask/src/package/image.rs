//! The compiled kernels that the package warpipe brings along.

use super::Error;
use kernel_build::{Arch, KernelBuilder};
use std::fs;
use std::path::Path;

/// How the names of the kernels of a feature of warpipe begin.
const FEATURES: [(&str, &str); 18] = [
    ("gemm_bf16_bf16_", "gemm-bf16"),
    ("gemm_f16_f16_", "gemm-f16"),
    ("gemm_bf16_f32_", "gemm-bf16-f32"),
    ("gemm_f16_f32_", "gemm-f16-f32"),
    ("gemm_bf16_f16_", "gemm-mixed"),
    ("gemm_f16_bf16_", "gemm-mixed"),
    ("gemm_e4m3_e4m3_", "gemm-e4m3-e4m3"),
    ("gemm_e4m3_bf16_128x128_1x1_c", "gemm-e4m3-e4m3"),
    ("gemm_e5m2", "gemm-e5m2"),
    ("gemm_e4m3xe5m2_", "gemm-e5m2"),
    ("gemm_s8_", "gemm-int8"),
    ("gemm_tf32_", "gemm-tf32"),
    ("gemm_e4m3_", "gemm-e4m3"),
    ("gemm_fused_", "gemm-fused"),
    ("gemm_gated_", "gemm-fused"),
    ("gemm_layout_", "gemm-layouts"),
    ("gemm_grouped_", "gemm-grouped"),
    ("attention_", "attention"),
];

/// The kernels of the repository alone: examples, and those that measure a GPU's limits.
const OWN: [&str; 8] = [
    "cluster_exchange",
    "ordered_loads",
    "ping_pong",
    "rms_norm",
    "stream_copy",
    "tma_read_alone",
    "two_rings",
    "wgmma_alone",
];

/// The feature of a kernel.
fn feature(kernel: &str) -> Option<&'static str> {
    FEATURES.iter().find(|(prefix, _)| kernel.starts_with(prefix)).map(|(_, feature)| *feature)
}

/// Compiles all kernels, and writes the image of those that are for users into `folder`. Intermediate files go to `work`. The
/// feature is that of the tests, which have lowered the same kernels already.
pub fn write(root: &Path, folder: &Path, work: &Path) -> Result<(), Error> {
    let mut image = KernelBuilder::new(root.join("gpu-kernels"))
        .arch(Arch::Sm90a)
        .feature("entry-points")
        .out_dir(work)
        .target_dir(root.join("target/kernel-build"))
        .build()?;
    for warning in &image.warnings {
        eprintln!("{warning}");
    }
    image.modules.retain(|module| !OWN.contains(&module.kernel.as_str()));
    image.kernels.retain(|kernel| !OWN.contains(&kernel.name.as_str()));
    if let Some(module) = image.modules.iter().find(|module| feature(&module.kernel).is_none()) {
        return Err(Error::Feature(module.kernel.clone()));
    }
    fs::create_dir_all(folder).map_err(Error::io("cannot create", folder))?;
    image.write_packaged(folder, |kernel| feature(kernel).unwrap_or_default().to_owned())?;
    let (modules, files) = (image.modules.len(), folder.display());
    println!("{modules} kernels in {files}");
    Ok(())
}
