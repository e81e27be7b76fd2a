//! [`KernelBuilder`]: the settings of a device build, and the order of its steps.

use crate::{
    DeviceImage, Error, PtxasCheck, depinfo, facts,
    ir::{self, Marked},
    lower,
    nested::{self, Nested},
    package, parallel,
    ptx::{self, KernelPtx},
    ptxas::{self, Ptxas},
    toolchain::Toolchain,
    workspace::{self, Wanted},
};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// A device architecture.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Arch {
    /// Hopper with its architecture-specific instructions (wgmma, setmaxnreg).
    #[default]
    Sm90a,
}

impl Arch {
    /// The name that PTX, rustc and ptxas use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sm90a => "sm_90a",
        }
    }
}

/// Builds a kernel crate for the device. The interface follows rust-cuda's `CudaBuilder`.
#[derive(Clone, Debug)]
#[must_use = "nothing is built before `build`"]
#[expect(clippy::struct_excessive_bools, reason = "each is one switch of the builder")]
pub struct KernelBuilder {
    kernel_crate: Crate,
    arch: Arch,
    features: Vec<String>,
    default_features: bool,
    ptxas: PtxasCheck,
    out_dir: Option<PathBuf>,
    target_dir: Option<PathBuf>,
    line_info: bool,
    keep: bool,
    cubin: bool,
    convergent: bool,
    own_variables: Vec<String>,
}

/// Where the kernel crate is.
#[derive(Clone, Debug)]
enum Crate {
    Folder(PathBuf),
    Package(String),
}

impl KernelBuilder {
    /// Makes a build of the crate in the folder `crate_dir`. A relative path is relative to the folder of
    /// the build script's package.
    pub fn new(crate_dir: impl Into<PathBuf>) -> Self {
        Self::of(Crate::Folder(crate_dir.into()))
    }

    /// Makes a build of the package `name`, a dependency of the build script's package: from its workspace, a path,
    /// a git repository or a registry. The versions are those of the workspace's lock file.
    pub fn package(name: impl Into<String>) -> Self {
        Self::of(Crate::Package(name.into()))
    }

    fn of(kernel_crate: Crate) -> Self {
        Self {
            kernel_crate,
            arch: Arch::default(),
            features: Vec::new(),
            default_features: true,
            ptxas: PtxasCheck::default(),
            out_dir: None,
            target_dir: None,
            line_info: false,
            keep: false,
            cubin: false,
            convergent: true,
            own_variables: Vec::new(),
        }
    }

    /// Sets the architecture to build for.
    pub fn arch(mut self, arch: Arch) -> Self {
        self.arch = arch;
        self
    }

    /// Enables a feature of the kernel crate.
    pub fn feature(mut self, feature: impl Into<String>) -> Self {
        self.features.push(feature.into());
        self
    }

    /// Sets whether the kernel crate's default features are enabled.
    pub fn default_features(mut self, on: bool) -> Self {
        self.default_features = on;
        self
    }

    /// Sets how ptxas checks the image.
    pub fn ptxas(mut self, check: PtxasCheck) -> Self {
        self.ptxas = check;
        self
    }

    /// Sets whether the PTX has the source line of each instruction, for profilers and compute-sanitizer.
    /// The instructions stay the same.
    pub fn line_info(mut self, on: bool) -> Self {
        self.line_info = on;
        self
    }

    /// Sets the output folder, `OUT_DIR` by default.
    pub fn out_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.out_dir = Some(dir.into());
        self
    }

    /// Sets the nested cargo's target folder. By default it is a folder inside of the outer cargo's.
    pub fn target_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.target_dir = Some(dir.into());
        self
    }

    /// Allows each kernel to have its own copy of a variable. Without this, a variable that several kernels
    /// use is an error: each kernel is a module of its own, so one kernel's writes are not visible to
    /// another one.
    pub fn own_variable(mut self, name: impl Into<String>) -> Self {
        self.own_variables.push(name.into());
        self
    }

    /// Copies the unoptimised module of the crate, `<crate>.ll`, and each kernel's marked and optimised modules,
    /// `<kernel>.ll` and `<kernel>.opt.ll`, to the output folder.
    pub fn keep_intermediate(mut self, on: bool) -> Self {
        self.keep = on;
        self
    }

    /// Omits `convergent`, for the test that shows why the mark is necessary.
    #[doc(hidden)]
    pub fn without_convergence(mut self) -> Self {
        self.convergent = false;
        self
    }

    /// Builds, and ends the build script with a message if there is an error.
    pub fn build_or_exit(self) -> DeviceImage {
        self.build().unwrap_or_else(|error| {
            eprintln!("error: {error}");
            std::process::exit(1)
        })
    }

    /// Also writes each kernel as ptxas assembled it, `<kernel>.cubin`, to the output folder, if there is a ptxas. It
    /// is meant for disassemblers.
    pub fn cubin(mut self, on: bool) -> Self {
        self.cubin = on;
        self
    }

    /// Builds. Writes `<crate>.ptx`, `<crate>.rs` and the files that it embeds into the output folder. In a
    /// build script, tells cargo which files to watch.
    pub fn build(self) -> Result<DeviceImage, Error> {
        let in_build_script = self.out_dir.is_none();
        let out_dir = match &self.out_dir {
            Some(dir) => dir.clone(),
            None => env::var_os("OUT_DIR").map(PathBuf::from).ok_or(Error::NoEnv("OUT_DIR"))?,
        };
        let target_dir = match &self.target_dir {
            Some(dir) => dir.clone(),
            None => nested_target_dir(&out_dir),
        };
        let toolchain = Toolchain::find()?;
        let Source { crate_dir, build_dir, run_in, name } =
            self.source(&toolchain, &out_dir, &target_dir)?;
        if in_build_script {
            for variable in ptxas::VARIABLES {
                println!("cargo::rerun-if-env-changed={variable}");
            }
            println!("cargo::rerun-if-changed={}", crate_dir.join("Cargo.toml").display());
        }
        let nested = Nested {
            crate_dir: &build_dir,
            run_in: &run_in,
            lib_name: &name,
            target_dir: &target_dir,
            arch: self.arch.name(),
            // A workspace of its own has them in its manifest.
            features: if build_dir == crate_dir { &self.features } else { &[] },
            default_features: self.default_features || build_dir != crate_dir,
            line_info: self.line_info,
        };
        fs::create_dir_all(&out_dir).map_err(Error::io("cannot create", &out_dir))?;
        let work_dir = nested.work_dir();
        let _lock = nested::lock(&work_dir)?;
        let module = nested.run(&toolchain)?;
        if in_build_script {
            watch(module.sources, &crate_dir, &build_dir);
            if build_dir != crate_dir {
                println!("cargo::rerun-if-changed={}", run_in.join("Cargo.lock").display());
            }
            pass_on(&module.warnings);
        }
        let source =
            fs::read_to_string(&module.path).map_err(Error::io("cannot read", &module.path))?;
        let marked = ir::mark(&source, ir::Options { convergent: self.convergent })?;
        let mut image =
            self.lower(&toolchain, &name, &marked, &module.path, &work_dir, &out_dir)?;
        if in_build_script {
            pass_on(&image.warnings);
        }
        image.warnings.splice(0..0, module.warnings);
        image.write()?;
        Ok(image)
    }

    /// Lowers marked IR to PTX and checks it.
    fn lower(
        &self,
        toolchain: &Toolchain,
        name: &str,
        marked: &Marked,
        module: &Path,
        work_dir: &Path,
        out_dir: &Path,
    ) -> Result<DeviceImage, Error> {
        let arch = self.arch.name();
        let folder = work_dir.join("kernels");
        fs::create_dir_all(&folder).map_err(Error::io("cannot create", &folder))?;
        let items = ir::Items::of(&marked.text);
        let names: Vec<&str> = marked.entries().collect();
        let lowered = parallel::map(&names, |kernel| {
            lower::lower(toolchain, arch, kernel, &items.kernel(kernel), &folder)
        });
        let (mut modules, mut variables) = (Vec::new(), BTreeSet::new());
        for (kernel, lowered) in names.iter().zip(lowered) {
            let lowered = lowered?;
            // The declarations of global assembly are in each module, needed or not.
            let split = ptx::split(&facts::annotate(&lowered.ptx, &marked.kernels))?;
            let own = split.into_iter().find(|module| module.kernel == *kernel);
            let own = own.ok_or_else(|| Error::NoEntry((*kernel).to_owned()))?;
            modules.push(KernelPtx { text: ptx::canonical(&own.text), ..own });
            variables.extend(lowered.variables);
        }
        if self.keep {
            let copy = |from: &Path, to: String| {
                let to = out_dir.join(to);
                fs::copy(from, &to).map_err(Error::io("cannot write", &to))
            };
            copy(module, format!("{name}.ll"))?;
            for kernel in &names {
                for suffix in ["ll", "opt.ll"] {
                    let file = format!("{kernel}.{suffix}");
                    copy(&folder.join(&file), file)?;
                }
            }
        }
        variables.retain(|name| !self.own_variables.contains(name));
        ptx::check_variables(&modules, &variables)?;
        let ptx = ptx::join(&modules)?;
        let ptx_path = out_dir.join(format!("{name}.ptx"));
        fs::write(&ptx_path, &ptx).map_err(Error::io("cannot write", &ptx_path))?;
        let mut image = DeviceImage {
            name: name.to_owned(),
            arch,
            modules,
            ptx,
            code_path: out_dir.join(format!("{name}.deflate")),
            rust_path: out_dir.join(format!("{name}.rs")),
            ptx_path,
            kernels: marked.kernels.clone(),
            bare_kernels: marked.bare_kernels.clone(),
            warnings: Vec::new(),
            ptxas: None,
        };
        for kernel in &image.bare_kernels {
            let warning = format!("kernel {kernel} has no metadata: its launches can't be checked");
            image.warnings.push(warning);
        }
        if self.ptxas == PtxasCheck::Off || marked.entries().next().is_none() {
            return Ok(image);
        }
        let Some(ptxas) = Ptxas::find()? else {
            image.warnings.push(format!(
                "no ptxas found ({} and PATH): the PTX of {name} is not checked for spills; the \
                 driver will assemble it",
                ptxas::VARIABLES.join(", ")
            ));
            return Ok(image);
        };
        let checked = work_dir.join("ptxas");
        let report = ptxas.check(arch, &image.modules, &checked)?;
        if self.cubin {
            for kernel in &names {
                let file = format!("{kernel}.cubin");
                let (from, to) = (checked.join(&file), out_dir.join(&file));
                fs::copy(from, &to).map_err(Error::io("cannot write", &to))?;
            }
        }
        image.warnings.extend(report.warnings.iter().cloned());
        let faults = report.faults();
        if !faults.is_empty() {
            let version = ptxas.version.clone();
            if self.ptxas == PtxasCheck::Strict {
                return Err(Error::Ptxas { version, ptx: image.ptx_path, faults });
            }
            image.warnings.push(format!("ptxas {version} finds fault with {name}:\n{faults}"));
        }
        image.ptxas = Some((ptxas, report));
        Ok(image)
    }

    /// Finds the kernel crate, and writes a workspace for it if it has none.
    fn source(
        &self,
        toolchain: &Toolchain,
        out_dir: &Path,
        target_dir: &Path,
    ) -> Result<Source, Error> {
        let builder = || {
            let dir = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
            dir.ok_or(Error::NoEnv("CARGO_MANIFEST_DIR"))
        };
        let package = match &self.kernel_crate {
            Crate::Folder(dir) => {
                let dir = if dir.is_absolute() { dir.clone() } else { builder()?.join(dir) };
                let crate_dir = absolute(&dir)?;
                let name = library_name(toolchain, &crate_dir)?;
                return Ok(Source::in_place(crate_dir, name));
            }
            Crate::Package(package) => package,
        };
        let located = package::locate(toolchain, package, &builder()?, out_dir)?;
        let crate_dir = absolute(&located.dir)?;
        let name = library_name(toolchain, &crate_dir)?;
        if located.member {
            return Ok(Source::in_place(crate_dir, name));
        }
        let wanted = Wanted {
            package,
            lib_name: &name,
            features: &self.features,
            default_features: self.default_features,
        };
        let build_dir = absolute(&workspace::write(&wanted, &located, target_dir)?)?;
        Ok(Source { crate_dir, build_dir, run_in: located.workspace, name })
    }
}

/// What the nested cargo builds.
struct Source {
    /// The kernel crate's folder.
    crate_dir: PathBuf,
    /// The folder of the package that is built: the kernel crate, or one whose only dependency it is.
    build_dir: PathBuf,
    /// The working folder of cargo, in and above which it looks for its configuration.
    run_in: PathBuf,
    /// The kernel crate's library name.
    name: String,
}

impl Source {
    /// The kernel crate is built in its own workspace.
    fn in_place(crate_dir: PathBuf, name: String) -> Self {
        Self { build_dir: crate_dir.clone(), run_in: crate_dir.clone(), crate_dir, name }
    }
}

/// The folder of a package with one spelling, because the work folder's name depends on it.
fn absolute(dir: &Path) -> Result<PathBuf, Error> {
    if !dir.join("Cargo.toml").is_file() {
        return Err(Error::NoCrate(dir.to_owned()));
    }
    dir.canonicalize().map_err(Error::io("cannot resolve", dir))
}

/// A folder that all builds of the workspace share. It lies in cargo's target folder above `OUT_DIR`, or
/// otherwise in `OUT_DIR`.
fn nested_target_dir(out_dir: &Path) -> PathBuf {
    // cargo writes the first file into every target folder, and the second one only into a folder that it
    // created.
    const MARKS: [&str; 2] = [".rustc_info.json", "CACHEDIR.TAG"];
    let target = out_dir.ancestors().find(|dir| MARKS.iter().any(|mark| dir.join(mark).is_file()));
    target.unwrap_or(out_dir).join("kernel-build")
}

/// The name of the kernel crate's library target, from `cargo metadata`.
fn library_name(toolchain: &Toolchain, crate_dir: &Path) -> Result<String, Error> {
    let output = Command::new(&toolchain.cargo)
        .args(["metadata", "--no-deps", "--format-version=1", "--manifest-path"])
        .arg(crate_dir.join("Cargo.toml"))
        .output()
        .map_err(Error::io("cannot run", &toolchain.cargo))?;
    let manifest = crate_dir.join("Cargo.toml");
    if !output.status.success() {
        let output_text = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
        return Err(Error::Tool {
            tool: "cargo metadata",
            status: output.status,
            input: manifest,
            output: output_text,
        });
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    let package = packages.iter().find(|package| {
        package["manifest_path"].as_str().is_some_and(|path| Path::new(path) == manifest)
    });
    let targets = package.and_then(|package| package["targets"].as_array());
    targets
        .into_iter()
        .flatten()
        .find(|target| {
            target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|k| k == "lib"))
        })
        .and_then(|target| target["name"].as_str())
        .map(|name| name.replace('-', "_"))
        .ok_or(Error::NoLibrary(manifest))
}

/// Tells cargo which files this build has read.
fn watch(sources: Option<Vec<PathBuf>>, crate_dir: &Path, build_dir: &Path) {
    // Without a list, cargo watches the whole folder of the crate.
    let sources = sources.unwrap_or_else(|| vec![crate_dir.join("src")]);
    // A workspace that this crate wrote follows the outer workspace's lock file, and is written again by each build.
    let written = |file: &Path| build_dir != crate_dir && file.starts_with(build_dir);
    for file in depinfo::with_manifests(sources, crate_dir) {
        if !written(&file) {
            println!("cargo::rerun-if-changed={}", file.display());
        }
    }
}

/// Passes warnings to cargo, which shows one line per directive.
fn pass_on(warnings: &[String]) {
    for line in warnings.iter().flat_map(|warning| warning.lines()) {
        println!("cargo::warning={line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nested_folder_is_in_cargos() {
        let root = env::temp_dir().join(format!("kernel-build-{}", std::process::id()));
        let out = root.join("target/debug/build/k-0123/out");
        fs::create_dir_all(&out).unwrap();
        assert_eq!(nested_target_dir(&out), out.join("kernel-build"));
        for mark in [".rustc_info.json", "CACHEDIR.TAG"] {
            let file = root.join("target").join(mark);
            fs::write(&file, "").unwrap();
            assert_eq!(nested_target_dir(&out), root.join("target/kernel-build"), "{mark}");
            fs::remove_file(file).unwrap();
        }
        fs::remove_dir_all(root).unwrap();
    }
}
