//! [`KernelBuilder`]: the settings of a device build, and the order of its steps.

mod check;
mod source;

use crate::{
    DeviceImage, Error, PtxasCheck, depinfo, facts,
    ir::{self, Marked},
    lower,
    nested::{self, Nested},
    parallel,
    ptx::{self, KernelPtx},
    ptxas,
    toolchain::Toolchain,
};
use check::Checked;
use source::{Asked, Crate, Source, nested_target_dir};
use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
};

/// A device architecture.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Arch {
    /// Hopper with its architecture-specific instructions (wgmma, setmaxnreg).
    #[default]
    Sm90a,
    /// Blackwell (B200, GB200) with its architecture-specific instructions (tcgen05).
    Sm100a,
    /// Blackwell Ultra (B300, GB300), as [`Sm100a`](Self::Sm100a).
    Sm103a,
}

impl Arch {
    /// The name that PTX, rustc and ptxas use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sm90a => "sm_90a",
            Self::Sm100a => "sm_100a",
            Self::Sm103a => "sm_103a",
        }
    }

    /// The architecture of this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Sm90a, Self::Sm100a, Self::Sm103a].into_iter().find(|arch| arch.name() == name)
    }
}

/// Builds a kernel crate for the device. The interface follows rust-cuda's `CudaBuilder`.
#[derive(Clone, Debug)]
#[must_use = "nothing is built before `build`"]
#[expect(clippy::struct_excessive_bools, reason = "each is one switch of the builder")]
pub struct KernelBuilder {
    kernel_crate: Crate,
    archs: Vec<Arch>,
    features: Vec<String>,
    arch_features: Vec<(Arch, String)>,
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
            archs: Vec::new(),
            features: Vec::new(),
            arch_features: Vec::new(),
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

    /// Adds an architecture to build for. Without any it is [`Arch::Sm90a`].
    ///
    /// The image has a part for each, as a fat binary has, and a device takes the part that is for it. The crate is
    /// compiled once for each, so that it may have other kernels for each ([`arch_feature`](Self::arch_feature)).
    pub fn arch(mut self, arch: Arch) -> Self {
        if !self.archs.contains(&arch) {
            self.archs.push(arch);
        }
        self
    }

    /// Enables a feature of the kernel crate, for all architectures.
    pub fn feature(mut self, feature: impl Into<String>) -> Self {
        self.features.push(feature.into());
        self
    }

    /// Enables a feature of the kernel crate for one of the architectures alone. Kernels that use an instruction which
    /// another architecture does not have (wgmma, tcgen05) belong behind such a feature.
    ///
    /// ```no_run
    /// # use warpipe_kernel_build::{Arch, KernelBuilder};
    /// KernelBuilder::package("my-kernels")
    ///     .arch(Arch::Sm90a)
    ///     .arch_feature(Arch::Sm90a, "hopper")
    ///     .arch(Arch::Sm100a)
    ///     .arch_feature(Arch::Sm100a, "blackwell")
    ///     .build_or_exit();
    /// ```
    pub fn arch_feature(mut self, arch: Arch, feature: impl Into<String>) -> Self {
        self.arch_features.push((arch, feature.into()));
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
    /// The kernel does the same, but ptxas may order some instructions differently.
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

    /// Builds. Writes `<crate>.ptx`, `<crate>.rs` and the files that it embeds into the output folder. What belongs to the
    /// second architecture and those that follow has a folder inside of it, with the architecture's name. In a
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
        if in_build_script {
            for variable in ptxas::VARIABLES {
                println!("cargo::rerun-if-env-changed={variable}");
            }
        }
        let (first, rest) = self.parts()?;
        let part = |part: &Part, out_dir: &Path| {
            self.part(part, &toolchain, &target_dir, out_dir, in_build_script)
        };
        let mut image = part(&first, &out_dir)?;
        for other in &rest {
            let folder = out_dir.join(other.arch.name());
            image.add(part(other, &folder)?)?;
        }
        image.write()?;
        Ok(image)
    }

    /// The parts of the image: the first one and the others.
    fn parts(&self) -> Result<(Part, Vec<Part>), Error> {
        let archs = if self.archs.is_empty() { &[Arch::default()] } else { &self.archs[..] };
        if let Some((arch, feature)) = self.arch_features.iter().find(|(a, _)| !archs.contains(a)) {
            let have: Vec<_> = archs.iter().map(|arch| arch.name()).collect();
            let (feature, arch) = (feature.clone(), arch.name());
            return Err(Error::ArchFeature { feature, arch, have: have.join(", ") });
        }
        let part = |arch: &Arch| {
            let own = self.arch_features.iter().filter(|(of, _)| of == arch);
            let features = self.features.iter().chain(own.map(|(_, feature)| feature));
            Part { arch: *arch, features: features.cloned().collect() }
        };
        Ok((part(&archs[0]), archs[1..].iter().map(part).collect()))
    }

    /// Builds one part. Its code is not packed yet.
    fn part(
        &self,
        part: &Part,
        toolchain: &Toolchain,
        target_dir: &Path,
        out_dir: &Path,
        in_build_script: bool,
    ) -> Result<DeviceImage, Error> {
        let asked = Asked {
            kernel_crate: &self.kernel_crate,
            features: &part.features,
            default_features: self.default_features,
        };
        let Source { crate_dir, build_dir, run_in, name, shown_from } =
            asked.source(toolchain, out_dir, target_dir)?;
        if in_build_script {
            println!("cargo::rerun-if-changed={}", crate_dir.join("Cargo.toml").display());
        }
        let nested = Nested {
            crate_dir: &build_dir,
            run_in: &run_in,
            lib_name: &name,
            target_dir,
            arch: part.arch.name(),
            // A workspace of its own has them in its manifest.
            features: if build_dir == crate_dir { &part.features } else { &[] },
            default_features: self.default_features || build_dir != crate_dir,
            line_info: self.line_info,
        };
        fs::create_dir_all(out_dir).map_err(Error::io("cannot create", out_dir))?;
        let work_dir = nested.work_dir();
        let _lock = nested::lock(&work_dir)?;
        let module = nested.run(toolchain)?;
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
        let files = Files { module: &module.path, work_dir: &work_dir, out_dir };
        let mut image = self.lower(toolchain, part.arch.name(), &name, &marked, &files)?;
        let checked = Checked {
            toolchain,
            nested: &nested,
            crate_dir: &crate_dir,
            shown_from: &shown_from,
            out_dir,
            how: self.ptxas,
            cubin: self.cubin,
            convergent: self.convergent,
        };
        checked.check(&mut image)?;
        if in_build_script {
            pass_on(&image.warnings);
        }
        image.warnings.splice(0..0, module.warnings);
        Ok(image)
    }

    /// Lowers marked IR to PTX.
    fn lower(
        &self,
        toolchain: &Toolchain,
        arch: &'static str,
        name: &str,
        marked: &Marked,
        &Files { module, work_dir, out_dir }: &Files<'_>,
    ) -> Result<DeviceImage, Error> {
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
            code_path: out_dir.join(format!("{name}.br")),
            rust_path: out_dir.join(format!("{name}.rs")),
            ptx_path,
            kernels: marked.kernels.clone(),
            bare_kernels: marked.bare_kernels.clone(),
            warnings: Vec::new(),
            ptxas: None,
            others: Vec::new(),
        };
        for kernel in &image.bare_kernels {
            let warning = format!("kernel {kernel} has no metadata: its launches can't be checked");
            image.warnings.push(warning);
        }
        Ok(image)
    }
}

/// What one part of the image is built for, and with.
struct Part {
    arch: Arch,
    features: Vec<String>,
}

/// Where the files of a part are.
struct Files<'a> {
    /// The unoptimised module.
    module: &'a Path,
    work_dir: &'a Path,
    out_dir: &'a Path,
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
