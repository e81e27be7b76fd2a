//! NVIDIA's assembler and disassembler, if they are installed.

use crate::chains::Chains;
use crate::sass::{Code, Sass};
use crate::{Error, ptx};
use kernel_build::ptxas::{self, Ptxas, Report};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The programs that a page's SASS needs.
#[derive(Clone, Debug)]
pub struct Tools {
    ptxas: Result<Ptxas, String>,
    nvdisasm: Option<PathBuf>,
}

/// Why there is no SASS.
pub(crate) enum Failure {
    /// A program is not installed: one line for the page.
    Missing(String),
    /// A program is there and failed.
    Failed(Error),
}

impl<E: Into<Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl Tools {
    /// Searches ptxas as `kernel-build` does, and nvdisasm in `NVDISASM`, beside that ptxas, in `CUDA_HOME` and in
    /// `PATH`.
    #[must_use]
    pub fn find() -> Self {
        let ptxas = match Ptxas::find() {
            Ok(Some(found)) => Ok(found),
            Ok(None) => Err(format!(
                "ptxas not found in PTXAS, {}, CUDA_HOME or PATH",
                ptxas::WHEEL_VARIABLE
            )),
            Err(error) => Err(error.to_string()),
        };
        let beside = ptxas.as_ref().ok().and_then(|found| found.path.parent().map(Path::to_owned));
        Self { nvdisasm: nvdisasm(beside), ptxas }
    }

    /// No tools: pages without SASS.
    #[must_use]
    pub fn none() -> Self {
        Self { ptxas: Err("ptxas was not asked for".to_owned()), nvdisasm: None }
    }

    /// Assembles the kernel's module and disassembles it again.
    pub(crate) fn disassemble(&self, text: &str, kernel: &str) -> Result<Sass, Failure> {
        let ptxas = self
            .ptxas
            .as_ref()
            .map_err(|why| Failure::Missing(format!("registers, spills and SASS: {why}")))?;
        let nvdisasm = self.nvdisasm.as_ref().ok_or_else(|| {
            Failure::Missing(
                "registers, spills and SASS: nvdisasm not found in NVDISASM, beside ptxas, in CUDA_HOME or PATH"
                    .to_owned(),
            )
        })?;
        let (text, chains) = Chains::replace(text);
        // ptxas assembles whole modules.
        let module = kernel_build::ptx::split(&text)?
            .into_iter()
            .find(|module| module.kernel == kernel)
            .ok_or_else(|| Error::NoKernel {
                kernel: kernel.to_owned(),
                have: ptx::kernels(&text).into_iter().map(str::to_owned).collect(),
            })?;
        let target = ptx::Header::find(&module.text, kernel)?.target.to_owned();
        let folder = tempfile::tempdir().map_err(Error::io("cannot write", env::temp_dir()))?;
        let (source, cubin) =
            (folder.path().join("kernel.ptx"), folder.path().join("kernel.cubin"));
        fs::write(&source, &module.text).map_err(Error::io("cannot write", &source))?;
        let said = ptxas.assemble(&target, &source, &cubin)?;
        let output = Command::new(nvdisasm)
            .args(["-c", "-g"])
            .arg(&cubin)
            .output()
            .map_err(Error::io("cannot run", nvdisasm))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.lines().next().unwrap_or_default().to_owned();
            return Err(Failure::Failed(Error::Disassembler { status: output.status, said }));
        }
        let code = Code::parse(&String::from_utf8_lossy(&output.stdout), kernel);
        Ok(Sass::new(&ptxas.version, &Report::parse(&said), kernel, &code, &chains))
    }
}

/// The disassembler in `NVDISASM`, beside ptxas, in `CUDA_HOME` or in `PATH`.
fn nvdisasm(beside: Option<PathBuf>) -> Option<PathBuf> {
    let program = format!("nvdisasm{}", env::consts::EXE_SUFFIX);
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = beside
        .into_iter()
        .chain(set("CUDA_HOME").map(|home| home.join("bin")))
        .chain(env::split_paths(&path));
    let candidates = set("NVDISASM").into_iter().chain(folders.map(|folder| folder.join(&program)));
    candidates.into_iter().find(|path| path.is_file())
}
