//! Errors of a device build. Each one is a line that says what would be right, in some cases followed by
//! the diagnostics of a tool.

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
    /// A variable such as `CARGO_MANIFEST_DIR` is not set: the caller is not a build script.
    #[error("{0} is not set: call this from a build script, or give the folder explicitly")]
    NoEnv(&'static str),
    /// The named folder has no kernel crate.
    #[error("no kernel crate at {}: there is no Cargo.toml", .0.display())]
    NoCrate(PathBuf),
    /// The package of the build script does not depend on the named kernel crate.
    #[error(
        "{builder} has no dependency {name}: add it to its Cargo.toml, or name the kernel crate's folder"
    )]
    NoPackage {
        /// Package name of the kernel crate.
        name: String,
        /// The package of the build script.
        builder: String,
    },
    /// The kernel crate's root lacks the attribute by which it is compiled for the device.
    #[error(
        "the kernel crate {name} needs this line at the top of its src/lib.rs: #![cfg_attr(target_arch = \"nvptx64\", \
         no_std, feature(abi_ptx))]"
    )]
    CrateAttribute {
        /// Library name of the kernel crate.
        name: String,
    },
    /// Crates below the kernel crate need the standard library, which the device does not have.
    #[error(
        "the kernel crate {name} depends on {packages}, compiled with the standard library, which a GPU does not have: \
         depend on it with default-features = false, and without its feature `std`"
    )]
    Std {
        /// Library name of the kernel crate.
        name: String,
        /// The packages, with their versions.
        packages: String,
    },
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
        /// Messages of rustc and cargo.
        diagnostics: String,
    },
    /// cargo succeeded, but the LLVM module is missing.
    #[error("rustc wrote no LLVM module at {}", .0.display())]
    NoModule(PathBuf),
    /// llc succeeded, but its PTX has no entry for the kernel.
    #[error("llc wrote no entry for kernel {0}")]
    NoEntry(String),
    /// The LLVM module has a form that the pass does not know.
    #[error("LLVM IR, line {line}: {what}")]
    Ir {
        /// Line in the unoptimised module.
        line: usize,
        /// What was unexpected.
        what: String,
    },
    /// PTX text that cannot be split into modules.
    #[error("PTX, line {line}: {what}")]
    Ptx {
        /// Line where the item begins.
        line: usize,
        /// What was unexpected.
        what: String,
    },
    /// Several kernels use a variable in global memory. Kernels are loaded one by one, so they would not
    /// share it.
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
    /// A kernel and its metadata do not agree.
    #[error("kernel {kernel}: {what}")]
    Metadata {
        /// The kernel's entry name, or its metadata symbol.
        kernel: String,
        /// What disagrees.
        what: String,
    },
    /// A feature is for an architecture that is not built.
    #[error(
        "feature {feature} is for {arch}, and the build is for {have}: call arch for {arch} too"
    )]
    ArchFeature {
        /// The feature.
        feature: String,
        /// Its architecture.
        arch: &'static str,
        /// The architectures of the build.
        have: String,
    },
    /// A kernel has other metadata for another architecture. The host's code has one description of it.
    #[error(
        "kernel {kernel} of {} differs from that of {} in its bounds or parameters: give one of them another name",
        archs[1], archs[0]
    )]
    PartsDiffer {
        /// The kernel.
        kernel: String,
        /// The two architectures.
        archs: [&'static str; 2],
    },
    /// `opt`, `llc` or `ptxas` failed.
    #[error("{tool} failed ({status}) on {}:\n{output}", input.display())]
    Tool {
        /// The program's name.
        tool: &'static str,
        /// Its exit status.
        status: std::process::ExitStatus,
        /// Its input file.
        input: PathBuf,
        /// Its output.
        output: String,
    },
    /// ptxas assembled the image, but reported spills, stack use or serialised wgmmas.
    #[error("ptxas {version} finds fault with the image {}:\n{faults}", ptx.display())]
    Ptxas {
        /// Version of the ptxas.
        version: String,
        /// The PTX file.
        ptx: PathBuf,
        /// One line per fault.
        faults: String,
    },
    /// An environment variable names a ptxas that does not exist.
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
        /// The operation.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
}

impl Error {
    /// For `map_err`: adds the operation and the path.
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}
