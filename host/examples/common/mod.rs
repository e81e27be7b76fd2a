//! An image from a PTX file, for programs that are carried to a machine without a toolchain.

use gpu_kernels::gemm::INSTANCES;
use isa::kernel::{Code, Image, KernelCode, KernelMeta};
use std::error::Error;

/// The image in the PTX file at `path`, one module with any number of kernels, with the facts of this
/// program's instance table. An empty path gives no code, which is enough for the SM model.
pub fn image(path: &str) -> Result<&'static Image, Box<dyn Error>> {
    let kernels: Vec<KernelMeta> = INSTANCES.iter().map(|i| i.desc.meta).collect();
    let ptx = if path.is_empty() { String::new() } else { std::fs::read_to_string(path)? };
    // Images live as long as the program, as embedded ones do.
    let code = kernel_build::ptx::split(&ptx)?.into_iter().map(|module| KernelCode {
        kernel: module.kernel.leak(),
        code: Code::Ptx(module.text.leak()),
    });
    Ok(Box::leak(Box::new(Image {
        name: "file",
        arch: "sm_90a",
        code: code.collect::<Vec<_>>().leak(),
        kernels: kernels.leak(),
        ptxas: None,
        others: &[],
    })))
}
