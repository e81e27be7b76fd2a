//! Finds a kernel of the table by its name.

use crate::error::Error;
use host::gemm::Gemm;
use warpipe::gpu_kernels::gemm::Instance;

/// The row of the first kernel that `fits` and whose name is `asked` or ends in `_` and `asked`. For
/// example, `128x256_2x1` names `gemm_bf16_bf16_128x256_2x1`.
pub fn named(gemm: &Gemm, asked: &str, fits: impl Fn(&Instance) -> bool) -> Result<usize, Error> {
    let fitting = || gemm.instances().iter().enumerate().filter(|(_, i)| fits(i));
    let end = format!("_{asked}");
    let is = |name: &str| name == asked || name.ends_with(&end);
    let found = fitting().find(|(_, i)| is(i.desc.meta.name()));
    found.map(|(index, _)| index).ok_or_else(|| {
        let names: Vec<_> = fitting().map(|(_, i)| i.desc.meta.name()).collect();
        Error::Usage(format!(
            "no instance {asked} for these types; there are: {}",
            names.join(", ")
        ))
    })
}
