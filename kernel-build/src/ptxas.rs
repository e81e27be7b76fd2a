//! The check by NVIDIA's assembler, if it is installed.
//!
//! A user does not need ptxas, because the driver assembles PTX. But only ptxas reports at build time that a
//! kernel spills registers, keeps an array in local memory, or has serialised wgmmas. Each of these costs
//! more than any tuning gains, so they are errors.

use crate::{Error, nested, parallel, ptx::KernelPtx};
use std::{
    collections::hash_map::DefaultHasher,
    env,
    fmt::Write as _,
    fs,
    hash::{Hash, Hasher},
    path::{Path, PathBuf},
    process::Command,
};

/// A folder into which NVIDIA's Python wheel `nvidia-cuda-nvcc` was installed: a virtual
/// environment, or the target of `pip install --target`.
pub const WHEEL_VARIABLE: &str = "WARPIPE_PTXAS_WHEEL";
/// The environment variables that say where ptxas is.
pub(crate) const VARIABLES: [&str; 3] = ["PTXAS", WHEEL_VARIABLE, "CUDA_HOME"];

/// How a build uses ptxas.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PtxasCheck {
    /// Spills, stack use and serialised wgmmas are errors, with the lines of Rust. A missing ptxas is only reported.
    #[default]
    Strict,
    /// They are warnings, in ptxas's words, without the lines of Rust.
    Warn,
    /// ptxas is not run.
    Off,
}

/// Parts of ptxas messages about serialised wgmmas or an ignored `setmaxnreg` (there are a dozen messages,
/// each with its own code), and about inserted `wgmma.fence`s and waits.
const LOSSES: [&str; 2] = ["Potential Performance Loss", " is injected in around line"];

/// What cures local memory, spills and losses.
const CURES: [&str; 3] = [
    "stack: an array is in local memory, not in registers. Index it only with numbers that the compiler knows: loops \
     with constant bounds, constant indices. Put #[device] on each function that takes arrays, fragments or \
     accumulators, so that it is inlined; pass no slice of them to a function that is not. No recursion, no dyn",
    "spills: more values are alive at once than the thread has registers. Give the role more of them in roles!, or a \
     thread fewer values: a smaller tile, more warp groups, values that are used before the next ones are made",
    "losses: something other than wgmma touches accumulators while wgmmas are in flight, or ptxas can't see that nothing \
     does. Read accumulators only after `finish`, make the next fragment (`to_a`) only after `finish` of the batch that reads \
     the one before, write the loop without branches around them, and put #[device] on each function that takes them",
];

/// A ptxas program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ptxas {
    /// Path of the program.
    pub path: PathBuf,
    /// Its version, like `13.0.88`.
    pub version: String,
}

/// Resources of a kernel, from ptxas.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Entry name.
    pub kernel: String,
    /// Registers per thread at entry.
    pub registers: u32,
    /// Bytes of local memory for arrays and calls.
    pub stack: u32,
    /// Bytes of spill stores.
    pub spill_stores: u32,
    /// Bytes of spill loads.
    pub spill_loads: u32,
}

/// The report of ptxas about an image.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Per kernel.
    pub kernels: Vec<Usage>,
    /// Performance losses without spills, mainly serialised wgmmas.
    pub losses: Vec<String>,
    /// Other warnings.
    pub warnings: Vec<String>,
}

impl Usage {
    /// Whether there is an array in local memory. Spills lie there too, in multiples of 8 bytes.
    pub(crate) fn has_array(&self) -> bool {
        self.stack > self.spill_stores.next_multiple_of(8)
    }
}

impl Ptxas {
    /// Searches the folders that the environment names, then `PATH`.
    pub fn find() -> Result<Option<Self>, Error> {
        let program = format!("ptxas{}", env::consts::EXE_SUFFIX);
        for variable in VARIABLES {
            let Some(value) = env::var_os(variable).filter(|value| !value.is_empty()) else {
                continue;
            };
            let value = PathBuf::from(value);
            let candidates = match variable {
                "PTXAS" => vec![value.clone()],
                "CUDA_HOME" => vec![value.join("bin").join(&program)],
                _ => in_wheel(&value, &program),
            };
            match candidates.into_iter().find(|path| path.is_file()) {
                Some(path) => return Self::at(path).map(Some),
                // CUDA_HOME is set for many reasons, so a missing ptxas there is not an error.
                None if variable == "CUDA_HOME" => {}
                None => {
                    return Err(Error::NoPtxas { variable, value: value.display().to_string() });
                }
            }
        }
        let path = env::var_os("PATH").unwrap_or_default();
        let found =
            env::split_paths(&path).map(|dir| dir.join(&program)).find(|path| path.is_file());
        found.map(Self::at).transpose()
    }

    fn at(path: PathBuf) -> Result<Self, Error> {
        let output = Command::new(&path)
            .arg("--version")
            .output()
            .map_err(Error::io("cannot run", &path))?;
        let text = String::from_utf8_lossy(&output.stdout);
        // `Cuda compilation tools, release 13.0, V13.0.88`
        let version = text.split_once(", V").map_or("of unknown version", |(_, rest)| {
            rest.split_whitespace().next().unwrap_or_default()
        });
        Ok(Self { version: version.to_owned(), path })
    }

    /// Assembles each kernel's module in `folder`, several at a time, and reads what ptxas says of each. What this ptxas
    /// said of the same text before is read from a file there.
    pub(crate) fn check(
        &self,
        arch: &str,
        modules: &[KernelPtx],
        folder: &Path,
    ) -> Result<Vec<Report>, Error> {
        fs::create_dir_all(folder).map_err(Error::io("cannot create", folder))?;
        let said = parallel::map(modules, |module| self.words(arch, module, folder));
        said.into_iter().map(|text| Ok(Report::parse(&text?))).collect()
    }

    /// The messages of ptxas about one module.
    fn words(&self, arch: &str, module: &KernelPtx, folder: &Path) -> Result<String, Error> {
        let file = |suffix: &str| folder.join(format!("{}.{suffix}", module.kernel));
        let (ptx, log) = (file("ptx"), file("ptxas.log"));
        let head = self.head(arch, &module.text);
        let known = fs::read_to_string(&log).ok();
        if let Some(text) = known.as_ref().and_then(|known| known.strip_prefix(&head)) {
            return Ok(text.to_owned());
        }
        fs::write(&ptx, &module.text).map_err(Error::io("cannot write", &ptx))?;
        let text = self.assemble(arch, &ptx, &file("cubin"))?;
        fs::write(&log, head + &text).map_err(Error::io("cannot write", &log))?;
        Ok(text)
    }

    /// The first line of a log: what the messages below it are about.
    fn head(&self, arch: &str, text: &str) -> String {
        let mut hasher = DefaultHasher::new();
        (text, &self.path, &self.version, arch).hash(&mut hasher);
        format!("{:016x}\n", hasher.finish())
    }

    /// What a build's check has left of the module `text` of `kernel`: the messages of `ptxas -v`, which [`Report::parse`]
    /// reads, and the bytes of the cubin. `None` if this ptxas has not assembled this text for `arch` in `folder`, or if a
    /// file is missing.
    ///
    /// A build uses the folder `<target>/kernel-build/ptxas-<crate>-<arch>`. The call waits while a build assembles there.
    pub fn assembled(
        &self,
        arch: &str,
        kernel: &str,
        text: &str,
        folder: &Path,
    ) -> Option<(String, Vec<u8>)> {
        if !folder.is_dir() {
            return None;
        }
        let _lock = nested::lock(folder).ok()?;
        let file = |suffix: &str| folder.join(format!("{kernel}.{suffix}"));
        let log = fs::read_to_string(file("ptxas.log")).ok()?;
        let said = log.strip_prefix(&self.head(arch, text))?.to_owned();
        Some((said, fs::read(file("cubin")).ok()?))
    }

    /// Assembles a PTX file for an architecture, and returns the messages of `ptxas -v`, which
    /// [`Report::parse`] reads.
    ///
    /// # Errors
    /// [`Error`] if ptxas can't be run or refuses the text.
    pub fn assemble(&self, arch: &str, ptx: &Path, cubin: &Path) -> Result<String, Error> {
        let output = Command::new(&self.path)
            .arg(format!("-arch={arch}"))
            .arg("-v")
            .arg(ptx)
            .arg("-o")
            .arg(cubin)
            .output()
            .map_err(Error::io("cannot run", &self.path))?;
        let text =
            String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
        if output.status.success() {
            return Ok(text.into_owned());
        }
        Err(Error::Tool {
            tool: "ptxas",
            status: output.status,
            input: ptx.to_owned(),
            output: text.trim_end().to_owned(),
        })
    }
}

/// Possible paths of the program below the folder into which the wheel was installed.
fn in_wheel(folder: &Path, program: &str) -> Vec<PathBuf> {
    let mut roots = vec![folder.to_owned()];
    // A virtual environment: lib/python3.x/site-packages.
    for entry in fs::read_dir(folder.join("lib")).into_iter().flatten().flatten() {
        roots.push(entry.path().join("site-packages"));
    }
    roots.push(folder.join("Lib").join("site-packages"));
    roots
        .iter()
        .flat_map(|root| {
            ["nvidia/cu13/bin", "nvidia/cuda_nvcc/bin", "bin", ""]
                .map(|bin| root.join(bin).join(program))
        })
        .collect()
}

impl Report {
    /// Reads the output of `ptxas -v`.
    pub fn parse(text: &str) -> Self {
        let mut report = Self::default();
        for line in text.lines() {
            if LOSSES.iter().any(|words| line.contains(words)) {
                report.losses.push(line.trim().to_owned());
            } else if line.contains("warning") {
                report.warnings.push(line.trim().to_owned());
            } else if let Some((_, rest)) = line.split_once("Compiling entry function '") {
                let kernel = rest.split('\'').next().unwrap_or_default().to_owned();
                report.kernels.push(Usage { kernel, ..Usage::default() });
            } else if let Some(usage) = report.kernels.last_mut() {
                if line.contains(" bytes stack frame") {
                    let numbers = numbers(line);
                    if let [stack, stores, loads, ..] = numbers[..] {
                        // The line of a kernel, or of a function that it calls.
                        usage.stack = usage.stack.max(stack);
                        usage.spill_stores += stores;
                        usage.spill_loads += loads;
                    }
                } else if let Some((_, rest)) = line.split_once("Used ") {
                    usage.registers = numbers(rest).first().copied().unwrap_or(0);
                }
            }
        }
        report
    }

    /// The report about all kernels of an image.
    pub(crate) fn join(reports: Vec<Self>) -> Self {
        let mut all = Self::default();
        for Self { kernels, losses, warnings } in reports {
            all.kernels.extend(kernels);
            all.losses.extend(losses);
            all.warnings.extend(warnings);
        }
        all
    }

    /// Whether ptxas finds fault with a kernel.
    pub(crate) fn has_faults(&self) -> bool {
        self.kinds().contains(&true)
    }

    /// Which kinds of faults there are, in the order of [`CURES`].
    fn kinds(&self) -> [bool; 3] {
        let any = |has: fn(&Usage) -> bool| self.kernels.iter().any(has);
        [
            any(Usage::has_array),
            any(|usage| usage.spill_stores + usage.spill_loads > 0),
            !self.losses.is_empty(),
        ]
    }

    /// One line for each fault, and one for what cures each kind; empty if there is none.
    pub fn faults(&self) -> String {
        let mut text = String::new();
        for usage in &self.kernels {
            let Usage { kernel, stack, spill_stores, spill_loads, .. } = usage;
            if stack + spill_stores + spill_loads > 0 {
                let _ = writeln!(
                    text,
                    "  {kernel}: {stack} bytes stack, {spill_stores} bytes spill stores, \
                     {spill_loads} bytes spill loads; expected 0, 0, 0"
                );
            }
        }
        for message in &self.losses {
            let _ = writeln!(text, "  {message}");
        }
        text += &self.cures();
        text.truncate(text.trim_end().len());
        text
    }

    /// One line for what cures each kind of fault.
    pub(crate) fn cures(&self) -> String {
        let there = CURES.iter().zip(self.kinds()).filter(|(_, there)| *there);
        there.flat_map(|(cure, _)| ["  ", cure, "\n"]).collect()
    }
}

/// The whole numbers in a line.
fn numbers(line: &str) -> Vec<u32> {
    line.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLEAN: &str = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'gemm' for 'sm_90a'
ptxas info    : Function properties for gemm
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 168 registers, used 2 barriers, 16 bytes smem
ptxas info    : Compile time = 10.731 ms
";

    #[test]
    fn a_clean_kernel_has_no_faults() {
        let report = Report::parse(CLEAN);
        assert_eq!(report.kernels.len(), 1);
        assert_eq!((report.kernels[0].kernel.as_str(), report.kernels[0].registers), ("gemm", 168));
        assert_eq!(report.faults(), "");
    }

    #[test]
    fn what_was_assembled_is_known_by_text_assembler_and_architecture() {
        let folder = tempfile::tempdir().unwrap();
        let ptxas = |version: &str| Ptxas { path: "ptxas".into(), version: version.to_owned() };
        let (ours, other) = (ptxas("13.0.88"), ptxas("13.1.0"));
        let found =
            |by: &Ptxas, arch: &str, text: &str| by.assembled(arch, "gemm", text, folder.path());
        assert_eq!(found(&ours, "sm_90a", "ret;"), None, "nothing is there yet");
        fs::write(folder.path().join("gemm.cubin"), b"cubin").unwrap();
        let log = ours.head("sm_90a", "ret;") + CLEAN;
        fs::write(folder.path().join("gemm.ptxas.log"), log).unwrap();
        let there = Some((CLEAN.to_owned(), b"cubin".to_vec()));
        assert_eq!(found(&ours, "sm_90a", "ret;"), there);
        assert_eq!(found(&ours, "sm_90a", "exit;"), None);
        assert_eq!(found(&ours, "sm_100a", "ret;"), None);
        assert_eq!(found(&other, "sm_90a", "ret;"), None);
        assert_eq!(ours.assembled("sm_90a", "gemm", "ret;", &folder.path().join("none")), None);
        // What a check reads again is the same.
        let module = KernelPtx { kernel: "gemm".to_owned(), text: "ret;".to_owned() };
        assert_eq!(ours.words("sm_90a", &module, folder.path()).unwrap(), CLEAN);
    }

    #[test]
    fn spills_and_serialisation_are_faults() {
        let text = CLEAN.replace(
            "0 bytes stack frame, 0 bytes spill stores",
            "512 bytes stack frame, 36 bytes spill stores",
        );
        let text = text
            + "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are \
               serialized due to non wgmma instructions defining accumulator registers\n\
               ptxas info    : (C7519) warpgroup.arrive is injected in around line 7 by compiler to \
               allow use of registers in GMMA in function 'gemm'\n\
               ptxas info    : Potential Performance Loss: 'setmaxnreg' ignored; unable to determine \
               register count at entry.\n\
               ptxas warning : Value of threads per SM is out of range\n";
        let report = Report::parse(&text);
        let faults = report.faults();
        assert!(
            faults.contains("gemm: 512 bytes stack, 36 bytes spill stores, 0 bytes spill loads")
        );
        for words in ["C7510", "C7519", "'setmaxnreg' ignored"] {
            assert!(faults.contains(words), "{faults}");
        }
        assert_eq!(report.warnings.len(), 1);
        for cure in CURES {
            assert!(faults.contains(cure), "{faults}");
        }
    }

    #[test]
    fn a_fault_has_its_own_cure() {
        let faults = |stack: u32, stores: u32| {
            let line = format!("{stack} bytes stack frame, {stores} bytes spill stores");
            let text = CLEAN.replace("0 bytes stack frame, 0 bytes spill stores", &line);
            let faults = Report::parse(&text).faults();
            CURES.map(|cure| faults.contains(cure))
        };
        assert_eq!(faults(512, 0), [true, false, false]);
        // A spill lies on the stack too.
        assert_eq!(faults(36, 36), [false, true, false]);
        assert_eq!(faults(512, 36), [true, true, false]);
    }
}
