//! An image from a PTX file, for programs that are carried to a machine without a toolchain.

use gpu_kernels::gemm::INSTANCES;
use isa::kernel::{Image, KernelMeta};

/// The image in the PTX file at `path`, with the kernels of this program's instance table. An empty
/// path gives no PTX, which is enough for the SM model.
pub fn image(path: &str) -> std::io::Result<&'static Image> {
    let kernels: Vec<KernelMeta> = INSTANCES.iter().map(|i| i.desc.meta).collect();
    let ptx = if path.is_empty() { String::new() } else { std::fs::read_to_string(path)? };
    // Images live as long as the program, as embedded ones do.
    Ok(Box::leak(Box::new(Image {
        name: "file",
        arch: "sm_90a",
        ptx: Box::leak(ptx.into_boxed_str()),
        kernels: Box::leak(kernels.into_boxed_slice()),
        ptxas: None,
    })))
}
