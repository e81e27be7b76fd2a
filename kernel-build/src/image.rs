//! The result of a device build, and the Rust expression that embeds it.

use crate::{
    Error,
    meta::{KernelMeta, ParamMeta},
    pack::{Packed, pack_all},
    ptx::KernelPtx,
    ptxas,
};
use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

/// A device image: PTX, and the metadata of its kernels.
#[derive(Clone, Debug)]
pub struct DeviceImage {
    /// Library name of the kernel crate.
    pub name: String,
    /// PTX target.
    pub arch: &'static str,
    /// PTX text of all kernels, one module.
    pub ptx: String,
    /// File with the PTX text.
    pub ptx_path: PathBuf,
    /// A module for each kernel. The image embeds these.
    pub modules: Vec<KernelPtx>,
    /// File with the packed modules, one after the other.
    pub code_path: PathBuf,
    /// File with an expression of type `isa::kernel::Image`, for `isa::kernel_image!`.
    pub rust_path: PathBuf,
    /// The kernels that have metadata, in the order of their names.
    pub kernels: Vec<KernelMeta>,
    /// Kernels without metadata.
    pub bare_kernels: Vec<String>,
    /// Warnings of rustc, cargo and ptxas. A build script has passed them to cargo.
    pub warnings: Vec<String>,
    /// The ptxas that assembled the image, and its report.
    pub ptxas: Option<(ptxas::Ptxas, ptxas::Report)>,
    /// The parts for the other architectures of the build, each with its own kernels, files and warnings.
    pub others: Vec<Self>,
}

impl DeviceImage {
    /// Adds the part for another architecture. The host's code has one description of a kernel, so that the kernels of the
    /// same name must agree.
    pub(crate) fn add(&mut self, part: Self) -> Result<(), Error> {
        let own = |kernel: &KernelMeta| self.kernels.iter().find(|k| k.name == kernel.name);
        let differs = |kernel: &&KernelMeta| own(kernel).is_some_and(|own| own != *kernel);
        if let Some(kernel) = part.kernels.iter().find(differs) {
            let archs = [self.arch, part.arch];
            return Err(Error::PartsDiffer { kernel: kernel.name.clone(), archs });
        }
        self.others.push(Self { rust_path: self.rust_path.clone(), ..part });
        Ok(())
    }

    /// Writes the packed modules and the Rust file that embeds them.
    pub(crate) fn write(&self) -> Result<(), Error> {
        let text = self.pack_all()?;
        fs::write(&self.rust_path, text).map_err(Error::io("cannot write", &self.rust_path))
    }

    /// Writes the packed modules, and returns the expression that embeds them.
    fn pack_all(&self) -> Result<String, Error> {
        let packed = pack_all(&self.modules, |_, _| true);
        let code: Vec<u8> = packed.iter().flat_map(|module| module.data.iter().copied()).collect();
        fs::write(&self.code_path, code).map_err(Error::io("cannot write", &self.code_path))?;
        let others: Vec<String> =
            self.others.iter().map(Self::pack_all).collect::<Result<_, _>>()?;
        Ok(self.rust_expression(&packed, &others))
    }

    /// Writes the image into `folder` for a package whose features choose among its kernels: `<name>.rs`, and a file
    /// for the code of each kernel. `feature` names the one of a kernel. `isa::kernel_image!` embeds the kernels
    /// whose feature the package has. Only the part for the first architecture is written.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn write_packaged(
        &self,
        folder: &Path,
        feature: impl Fn(&str) -> String,
    ) -> Result<(), Error> {
        // A kernel's dictionary is there if the kernel is: it has the same feature.
        let features: Vec<String> = self.modules.iter().map(|m| feature(&m.kernel)).collect();
        let packed = pack_all(&self.modules, |i, j| features[i] == features[j]);
        let mut code = String::from("&[\n");
        for (module, packed) in self.modules.iter().zip(&packed) {
            let KernelPtx { kernel, text } = module;
            let dictionary = self.dictionary(packed);
            let file = folder.join(format!("{kernel}.br"));
            fs::write(&file, &packed.data).map_err(Error::io("cannot write", &file))?;
            let _ = writeln!(
                code,
                "        #[cfg(feature = {:?})]\n        KernelCode {{ kernel: {kernel:?}, code: Code::Brotli {{ bytes: {}, \
                 data: include_bytes!(\"{kernel}.br\"), dictionary: {dictionary:?} }} }},",
                feature(kernel),
                text.len()
            );
        }
        code += "    ]";
        let file = folder.join(format!("{}.rs", self.name));
        let kernels =
            self.kernel_list(|kernel| format!("#[cfg(feature = {:?})]\n        ", feature(kernel)));
        fs::write(&file, self.expression("", &code, &kernels, &[]))
            .map_err(Error::io("cannot write", &file))
    }

    /// The kernel whose text is the dictionary of a packed module.
    fn dictionary(&self, packed: &Packed) -> Option<&str> {
        packed.dictionary.map(|module| self.modules[module].kernel.as_str())
    }

    /// An expression of type `isa::kernel::Image`; `packed` are the packed modules, and `others` the expressions
    /// of the other parts. `isa::kernel_image!` gives the name `__warpipe_isa` its meaning. The modules' file is named relative to
    /// this one, so that both can be moved.
    fn rust_expression(&self, packed: &[Packed], others: &[String]) -> String {
        let folder = self.rust_path.parent().unwrap_or(Path::new(""));
        let code_file = self.code_path.strip_prefix(folder).unwrap_or(&self.code_path);
        // A part without kernels uses neither.
        let head = format!(
            "    #[allow(dead_code)]\n    const ALL: &[u8] = include_bytes!({:?});\n    #[allow(dead_code)]\n    const fn code(kernel: \
             &'static str, bytes: usize, at: usize, len: usize, dictionary: Option<&'static str>) -> KernelCode {{\n        let data = \
             ALL.split_at(at).1.split_at(len).0;\n        KernelCode {{ kernel, code: Code::Brotli \
             {{ bytes, data, dictionary }} }}\n    }}\n",
            code_file.to_string_lossy(),
        );
        let mut code = String::from("&[\n");
        let mut at = 0;
        for (module, packed) in self.modules.iter().zip(packed) {
            let (KernelPtx { kernel, text }, len) = (module, packed.data.len());
            let (bytes, dictionary) = (text.len(), self.dictionary(packed));
            let _ =
                writeln!(code, "        code({kernel:?}, {bytes}, {at}, {len}, {dictionary:?}),");
            at += len;
        }
        code += "    ]";
        self.expression(&head, &code, &self.kernel_list(|_| String::new()), others)
    }

    /// The kernels' metadata as a slice. `before` is written before each kernel.
    fn kernel_list(&self, before: impl Fn(&str) -> String) -> String {
        let mut text = String::from("&[\n");
        for kernel in &self.kernels {
            let KernelMeta {
                name, threads, min_ctas, cluster, smem_bytes, dependent, params, ..
            } = kernel;
            let _ = writeln!(
                text,
                "        {}KernelMeta {{\n            magic: META_MAGIC,\n            name: \
                 name64({name:?}),\n            threads: {threads},\n            min_ctas: \
                 {min_ctas},\n            cluster: {cluster:?},\n            smem_bytes: \
                 {smem_bytes},\n            dependent: {},\n            param_count: {},\n            params: {{\n                \
                 let mut params = [ParamMeta::NONE; __warpipe_isa::kernel::MAX_PARAMS];",
                before(name),
                u32::from(*dependent),
                params.len()
            );
            for (i, param) in params.iter().enumerate() {
                let ParamMeta { kind, size, align, dtype, box_rows, box_cols, swizzle_bytes, rank } =
                    param;
                let _ = writeln!(
                    text,
                    "                params[{i}] = ParamMeta {{ kind: {kind}, size: {size}, align: \
                     {align}, dtype: {dtype}, box_rows: {box_rows}, box_cols: {box_cols}, \
                     swizzle_bytes: {swizzle_bytes}, rank: {rank} }};"
                );
            }
            text += "                params\n            },\n        },\n";
        }
        text + "    ]"
    }

    /// The image, from what its items need, the lists of its code and its kernels, and its other parts.
    fn expression(&self, head: &str, code: &str, kernels: &str, others: &[String]) -> String {
        let ptxas = self.ptxas.as_ref().map(|(ptxas, _)| &ptxas.version);
        format!(
            "{{\n    #[allow(unused_imports)]\n    use __warpipe_isa::kernel::{{Code, Image, KernelCode, KernelMeta, \
             META_MAGIC, ParamMeta, name64}};\n{head}    static CODE: &[KernelCode] = {code};\n    static KERNELS: \
             &[KernelMeta] = {kernels};\n    static OTHERS: &[Image] = &[{}];\n    Image {{\n        name: {:?},\n        \
             arch: {:?},\n        code: CODE,\n        kernels: KERNELS,\n        ptxas: {ptxas:?},\n        others: \
             OTHERS,\n    }}\n}}\n",
            others.join(","),
            self.name,
            self.arch,
        )
    }
}
