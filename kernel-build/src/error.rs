//! What can go wrong in a device build. Each error is one line that says what would be right,
//! except where the line is followed by the diagnostics of the tool that found it.

use std::path::PathBuf;

/// Why a device build failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A component of the Rust toolchain is not installed.
    #[error("the Rust toolchain lacks {missing}; install: {command}")]
    MissingComponents {
        /// The components' names, joined with `and`.
        missing: String,
        /// The command that installs them.
        command: String,
    },
    /// `CARGO_MANIFEST_DIR` and friends are absent: not called from a build script.
    #[error("{0} is not set: call this from a build script, or give the folder explicitly")]
    NoEnv(&'static str),
    /// There is no kernel crate where one was named.
    #[error("no kernel crate at {}: there is no Cargo.toml", .0.display())]
    NoCrate(PathBuf),
    /// The named package has no library target.
    #[error("{} has no library target: a kernel crate is a [lib]", .0.display())]
    NoLibrary(PathBuf),
    /// rustc or cargo rejected the kernel crate.
    #[error("the kernel crate {name} does not compile for {arch}:\n{diagnostics}")]
    Compile {
        /// Library name of the kernel crate.
        name: String,
        /// The target architecture.
        arch: &'static str,
        /// rustc's and cargo's own words.
        diagnostics: String,
    },
    /// cargo succeeded, and the module it should have written is not there.
    #[error("rustc wrote no LLVM module at {}", .0.display())]
    NoModule(PathBuf),
    /// The LLVM module has a form which the pass does not know.
    #[error("LLVM IR, line {line}: {what}")]
    Ir {
        /// Line in the unoptimised module.
        line: usize,
        /// What was unexpected.
        what: String,
    },
    /// PTX text that can't be divided into modules.
    #[error("PTX, line {line}: {what}")]
    Ptx {
        /// Line where the item begins.
        line: usize,
        /// What was unexpected.
        what: String,
    },
    /// A variable of global memory that kernels would share, were they not loaded one by one.
    #[error(
        "kernels {} and {} refer to the variable {variable}; each kernel is loaded by itself and would \
         have its own: pass it as a buffer",
        kernels[0], kernels[1]
    )]
    SharedVariable {
        /// Its name in PTX.
        variable: String,
        /// Two kernels that refer to it.
        kernels: [String; 2],
    },
    /// A kernel and the metadata beside it do not agree.
    #[error("kernel {kernel}: {what}")]
    Metadata {
        /// The kernel's entry name, or its metadata symbol.
        kernel: String,
        /// What disagrees.
        what: String,
    },
    /// `opt`, `llc` or `ptxas` failed.
    #[error("{tool} failed ({status}) on {}:\n{output}", input.display())]
    Tool {
        /// The program's name.
        tool: &'static str,
        /// Its exit status.
        status: std::process::ExitStatus,
        /// What it was run on.
        input: PathBuf,
        /// What it said.
        output: String,
    },
    /// ptxas assembled the image, and reported what costs more than an optimisation gains.
    #[error("ptxas {version} finds fault with the image {}:\n{faults}", ptx.display())]
    Ptxas {
        /// Version of the ptxas.
        version: String,
        /// The PTX file.
        ptx: PathBuf,
        /// One line per fault.
        faults: String,
    },
    /// A ptxas was asked for by an environment variable, and there is none.
    #[error("{variable}={value}: no ptxas there; unset it to build without the check")]
    NoPtxas {
        /// The environment variable.
        variable: &'static str,
        /// Its value.
        value: String,
    },
    /// A file or program could not be used.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
}

impl Error {
    /// For `map_err`: adds what was tried, and on what.
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}
