//! The result of a device build, and the Rust expression that embeds it.

use crate::{
    meta::{KernelMeta, ParamMeta},
    ptxas,
};
use std::{fmt::Write as _, path::PathBuf};

/// A device image: PTX, and what is known of its kernels.
#[derive(Clone, Debug)]
pub struct DeviceImage {
    /// Library name of the kernel crate.
    pub name: String,
    /// Target as PTX spells it.
    pub arch: &'static str,
    /// PTX text.
    pub ptx: String,
    /// Its file.
    pub ptx_path: PathBuf,
    /// File with an expression of type `isa::kernel::Image`, for `include!`.
    pub rust_path: PathBuf,
    /// The kernels that have metadata, in the order of their names.
    pub kernels: Vec<KernelMeta>,
    /// Kernels without metadata.
    pub bare_kernels: Vec<String>,
    /// Warnings of rustc, cargo and ptxas; a build script has passed them on to cargo.
    pub warnings: Vec<String>,
    /// The ptxas that assembled the image, and what it said.
    pub ptxas: Option<(ptxas::Ptxas, ptxas::Report)>,
}

impl DeviceImage {
    /// An expression of type `::isa::kernel::Image`.
    pub(crate) fn rust_expression(&self) -> String {
        let mut text = format!(
            "{{\n    use ::isa::kernel::{{Image, KernelMeta, META_MAGIC, ParamMeta, name64}};\n    \
             static KERNELS: [KernelMeta; {}] = [\n",
            self.kernels.len()
        );
        for kernel in &self.kernels {
            let KernelMeta { name, threads, min_ctas, cluster, smem_bytes, dependent, params } =
                kernel;
            let _ = writeln!(
                text,
                "        KernelMeta {{\n            magic: META_MAGIC,\n            name: \
                 name64({name:?}),\n            threads: {threads},\n            min_ctas: \
                 {min_ctas},\n            cluster: {cluster:?},\n            smem_bytes: \
                 {smem_bytes},\n            dependent: {},\n            param_count: {},\n            params: {{\n                \
                 let mut params = [ParamMeta::NONE; ::isa::kernel::MAX_PARAMS];",
                u32::from(*dependent),
                params.len()
            );
            for (i, param) in params.iter().enumerate() {
                let ParamMeta { kind, size, align, dtype, box_rows, box_cols, swizzle_bytes } =
                    param;
                let _ = writeln!(
                    text,
                    "                params[{i}] = ParamMeta {{ kind: {kind}, size: {size}, align: \
                     {align}, dtype: {dtype}, box_rows: {box_rows}, box_cols: {box_cols}, \
                     swizzle_bytes: {swizzle_bytes} }};"
                );
            }
            text += "                params\n            },\n        },\n";
        }
        let ptxas = self.ptxas.as_ref().map(|(ptxas, _)| &ptxas.version);
        let _ = write!(
            text,
            "    ];\n    Image {{\n        name: {:?},\n        arch: {:?},\n        ptx: \
             include_str!({:?}),\n        kernels: &KERNELS,\n        ptxas: {ptxas:?},\n    }}\n}}\n",
            self.name,
            self.arch,
            self.ptx_path.to_string_lossy(),
        );
        text
    }
}
