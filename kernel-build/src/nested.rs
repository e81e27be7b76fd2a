//! The nested cargo build, which compiles a kernel crate to one unoptimised LLVM module.

use crate::{Error, depinfo, toolchain::Toolchain};
use serde_json::Value;
use std::{
    collections::{BTreeSet, hash_map::DefaultHasher},
    env,
    ffi::OsStr,
    fs,
    hash::{Hash, Hasher},
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// The device's target triple.
const TARGET: &str = "nvptx64-nvidia-cuda";
/// The cargo profile of device builds, defined on the command line so that a workspace's own
/// profiles do not matter.
const PROFILE: &str = "device";

/// What to build.
#[derive(Debug)]
pub(crate) struct Nested<'a> {
    /// The folder of the package to build.
    pub crate_dir: &'a Path,
    /// The folder in which cargo runs.
    pub run_in: &'a Path,
    pub lib_name: &'a str,
    pub target_dir: &'a Path,
    pub arch: &'static str,
    pub features: &'a [String],
    pub default_features: bool,
    pub line_info: bool,
}

/// What came out.
#[derive(Debug)]
pub(crate) struct Module {
    /// The unoptimised module's file.
    pub path: PathBuf,
    /// Everything that the build read from path crates, if cargo said.
    pub sources: Option<Vec<PathBuf>>,
    /// Warnings of rustc and cargo, as they rendered them.
    pub warnings: Vec<String>,
}

impl Nested<'_> {
    /// The folder of this build's intermediate files: one per kernel crate, architecture and set
    /// of features.
    pub fn work_dir(&self) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        (self.crate_dir, self.arch, self.features, self.default_features, self.line_info)
            .hash(&mut hasher);
        self.target_dir.join(format!("{}-{:016x}", self.lib_name, hasher.finish()))
    }

    /// Runs cargo.
    pub fn run(&self, toolchain: &Toolchain) -> Result<Module, Error> {
        let (path, stamp_path) = (self.file("module.ll"), self.file("module.stamp"));
        // cargo's own lock ends with its process. The list of sources is read later, and a build with
        // other features could overwrite it.
        let _lock = lock(self.target_dir)?;
        let out = self.target_dir.join(TARGET).join(PROFILE);
        let archive = out.join(format!("lib{}.a", self.lib_name));
        let mut said = self.cargo(toolchain, &path)?;
        // cargo does not know of the module. The archive that rustc wrote with it tells whether it
        // is the one that belongs to this build: an archive of another set of features or versions,
        // which cargo kept and finds fresh, has another time.
        if said.fresh && !(path.is_file() && known(&stamp_path, &archive)) {
            remove_archives(&out.join("deps"), self.lib_name);
            said = self.cargo(toolchain, &path)?;
        }
        if !path.is_file() {
            return Err(Error::NoModule(path));
        }
        if !said.fresh {
            let stamp = stamp(&archive).map_err(Error::io("cannot read", &archive))?;
            fs::write(&stamp_path, stamp).map_err(Error::io("cannot write", &stamp_path))?;
        }
        let dep_info = fs::read_to_string(archive.with_extension("d"));
        let sources = dep_info.ok().map(|text| depinfo::parse(&text));
        Ok(Module { path, sources, warnings: said.warnings })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.work_dir().join(name)
    }

    fn cargo(&self, toolchain: &Toolchain, module: &Path) -> Result<Diagnostics, Error> {
        let mut command = Command::new(&toolchain.cargo);
        clean_environment(&mut command);
        let output = command
            .current_dir(self.run_in)
            .args(self.arguments(module))
            // Features of the language that a kernel needs are unstable, and so is build-std; the
            // bootstrap variable opens them here alone.
            .env("RUSTC_BOOTSTRAP", "1")
            .env("CARGO_ENCODED_RUSTFLAGS", rustflags(self.arch))
            .output()
            .map_err(Error::io("cannot run", &toolchain.cargo))?;
        let said = Diagnostics::read(&output, self.lib_name);
        if output.status.success() {
            return Ok(said);
        }
        let name = self.lib_name.to_owned();
        // One mistake in a manifest or in the first line has hundreds of consequences.
        if !said.without_std.is_empty() {
            let packages: Vec<&str> = said.without_std.iter().map(String::as_str).collect();
            return Err(Error::Std { name, packages: packages.join(", ") });
        }
        if said.no_attribute {
            return Err(Error::CrateAttribute { name });
        }
        Err(Error::Compile { name, arch: self.arch, diagnostics: said.all() })
    }

    /// cargo's arguments. The crate becomes a static library: no linker is needed for one.
    fn arguments(&self, module: &Path) -> Vec<std::ffi::OsString> {
        let mut args: Vec<std::ffi::OsString> = [
            "rustc",
            "--lib",
            "--crate-type",
            "staticlib",
            "--target",
            TARGET,
            "--profile",
            PROFILE,
        ]
        .map(Into::into)
        .to_vec();
        args.extend(["-Zbuild-std=core", "--message-format=json", "--color=never"].map(Into::into));
        args.extend(["--target-dir".into(), self.target_dir.into()]);
        args.extend(["--manifest-path".into(), self.crate_dir.join("Cargo.toml").into()]);
        for setting in [
            "inherits='release'",
            // One module, with core in it.
            "lto='fat'",
            "codegen-units=1",
            "panic='abort'",
            "opt-level=3",
            // PTX has a directive only for this form of debug information: `.loc`.
            if self.line_info { "debug='line-directives-only'" } else { "debug=false" },
            "debug-assertions=false",
            "overflow-checks=false",
            "strip=false",
        ] {
            args.extend(["--config".into(), format!("profile.{PROFILE}.{setting}").into()]);
        }
        if !self.features.is_empty() {
            args.extend(["--features".into(), self.features.join(",").into()]);
        }
        if !self.default_features {
            args.push("--no-default-features".into());
        }
        let mut emit = std::ffi::OsString::from("--emit=llvm-ir=");
        emit.push(module);
        args.extend(["--".into(), emit]);
        args
    }
}

/// Length and modification time of a file, as text.
fn stamp(file: &Path) -> std::io::Result<String> {
    let metadata = fs::metadata(file)?;
    Ok(format!("{} {:?}", metadata.len(), metadata.modified()?))
}

/// Whether `stamp_path` holds the stamp of `file`.
fn known(stamp_path: &Path, file: &Path) -> bool {
    matches!((fs::read_to_string(stamp_path), stamp(file)), (Ok(known), Ok(now)) if known == now)
}

/// Takes the lock of a folder, until the file is dropped: several outer builds (of two profiles,
/// say) may share the folder.
pub(crate) fn lock(folder: &Path) -> Result<fs::File, Error> {
    fs::create_dir_all(folder).map_err(Error::io("cannot create", folder))?;
    let path = folder.join(".kernel-build-lock");
    let file = fs::File::create(&path).map_err(Error::io("cannot create", &path))?;
    file.lock().map_err(Error::io("cannot lock", &path))?;
    Ok(file)
}

/// Flags for every crate of the device, core included; crates of the host (procedural macros) get
/// none of them, because the build names a target.
fn rustflags(arch: &str) -> String {
    [
        &format!("-Ctarget-cpu={arch}"),
        // The pass must run before any optimisation.
        "-Cno-prepopulate-passes",
        // A panic is a trap, without code for formatting.
        "-Zunstable-options",
        "-Cpanic=immediate-abort",
    ]
    .join("\u{1f}")
}

/// Takes out of the environment what cargo put there for the outer build, and what the user put
/// there for the host.
fn clean_environment(command: &mut Command) {
    const KEPT: [&str; 8] = [
        "CARGO_HOME",
        "CARGO_MAKEFLAGS",
        "CARGO_BUILD_JOBS",
        "CARGO_NET_",
        "CARGO_HTTP_",
        "CARGO_REGISTRY_",
        "CARGO_REGISTRIES_",
        "CARGO_SOURCE_",
    ];
    // The wrappers are clippy's driver and the like; the rest tells a crate where it is built.
    const DROPPED: [&str; 14] = [
        "RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER",
        "RUSTC_LINKER",
        "RUSTFLAGS",
        "RUSTDOC",
        "RUSTDOCFLAGS",
        "TARGET",
        "HOST",
        "PROFILE",
        "OPT_LEVEL",
        "DEBUG",
        "NUM_JOBS",
        "OUT_DIR",
        "CLIPPY_ARGS",
    ];
    for (name, _) in env::vars_os() {
        let Some(text) = name.to_str() else { continue };
        let of_cargo =
            text.starts_with("CARGO_") && !KEPT.iter().any(|kept| text.starts_with(kept));
        if of_cargo || DROPPED.contains(&text) {
            command.env_remove(&name);
        }
    }
}

/// Removes `lib<name>-<hash>.a` from a folder; what is not there needs no removal.
fn remove_archives(deps: &Path, name: &str) {
    let prefix = format!("lib{name}-");
    for entry in fs::read_dir(deps).into_iter().flatten().flatten() {
        let path = entry.path();
        let file = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        if file.starts_with(&prefix) && path.extension() == Some(OsStr::new("a")) {
            // A failure shows as a missing module afterwards.
            let _ = fs::remove_file(&path);
        }
    }
}

/// The messages of rustc and cargo.
#[derive(Default, Debug)]
struct Diagnostics {
    errors: Vec<String>,
    warnings: Vec<String>,
    /// cargo's own lines, its progress included.
    cargo: String,
    /// The kernel crate was not compiled: cargo found its output up to date.
    fresh: bool,
    /// Packages below the kernel crate that need the standard library.
    without_std: BTreeSet<String>,
    /// The kernel crate itself needs it, or does not open the device's calling convention.
    no_attribute: bool,
}

impl Diagnostics {
    fn read(output: &Output, lib_name: &str) -> Self {
        let mut said =
            Self { cargo: String::from_utf8_lossy(&output.stderr).into_owned(), ..Self::default() };
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let Ok(message) = serde_json::from_str::<Value>(line) else { continue };
            if message["reason"] == "compiler-artifact" && message["target"]["name"] == lib_name {
                said.fresh = message["fresh"] == true;
            }
            if message["reason"] != "compiler-message" {
                continue;
            }
            said.look_for_causes(&message, lib_name);
            let message = &message["message"];
            let Some(rendered) = message["rendered"].as_str() else { continue };
            match message["level"].as_str() {
                Some("warning") => said.warnings.push(rendered.trim_end().to_owned()),
                _ => said.errors.push(rendered.trim_end().to_owned()),
            }
        }
        said.warnings.extend(cargo_warnings(&said.cargo));
        said
    }

    /// Notes the two mistakes that people make in a kernel crate's manifest and first line.
    fn look_for_causes(&mut self, message: &Value, lib_name: &str) {
        let words = message["message"]["message"].as_str().unwrap_or_default();
        let ours = message["target"]["name"] == lib_name;
        match message["message"]["code"]["code"].as_str() {
            Some("E0463") if words.contains("`std`") => {
                if ours {
                    self.no_attribute = true;
                } else {
                    self.without_std.insert(package_words(message));
                }
            }
            Some("E0658") if ours && words.contains("ptx-kernel") => self.no_attribute = true,
            _ => {}
        }
    }

    /// Errors first; cargo's own words when rustc has none (a manifest that does not parse, …).
    fn all(&self) -> String {
        if self.errors.is_empty() {
            return self.cargo.trim_end().to_owned();
        }
        let mut parts = self.errors.clone();
        parts.extend(self.warnings.iter().cloned());
        parts.join("\n\n")
    }
}

/// Name and version of a message's package: `half 2.7.1`.
fn package_words(message: &Value) -> String {
    let name = message["target"]["name"].as_str().unwrap_or_default();
    // `registry+https://...#half@2.7.1`, or `path+file:///...#0.1.0` where the folder has the name.
    let version = message["package_id"].as_str().and_then(|id| id.rsplit(['#', '@']).next());
    format!("{name} {}", version.unwrap_or_default())
}

/// The warnings among cargo's own lines: from a line that begins with `warning:` to the next line
/// of progress (those are indented) or message.
fn cargo_warnings(stderr: &str) -> Vec<String> {
    let mut warnings: Vec<String> = Vec::new();
    let mut inside = false;
    for line in stderr.lines() {
        if line.starts_with("warning: ") {
            // `warning: `x` (lib) generated 2 warnings` only counts what is listed already. A patch that the host's
            // packages use need not be used by the device's.
            inside =
                !line.contains(" generated ") && !line.contains("was not used in the crate graph");
            if inside {
                warnings.push(line.to_owned());
            }
        } else if line.starts_with("error")
            || line.trim_start().starts_with(|c: char| c.is_uppercase())
        {
            inside = false;
        } else if inside && let Some(last) = warnings.last_mut() {
            last.push('\n');
            last.push_str(line);
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_of_cargo_itself_are_kept() {
        let stderr = "   Compiling core v0.0.0\nwarning: unused manifest key: x\n  in y\n   \
                      Compiling fx v0.1.0\nwarning: `fx` (lib) generated 1 warning\n    Finished\n";
        assert_eq!(cargo_warnings(stderr), ["warning: unused manifest key: x\n  in y"]);
    }

    #[test]
    fn folders_differ_by_features_and_architecture() {
        let of = |arch, features: &[String]| {
            let nested = Nested {
                crate_dir: Path::new("/k"),
                run_in: Path::new("/k"),
                lib_name: "k",
                target_dir: Path::new("/t"),
                arch,
                features,
                default_features: true,
                line_info: false,
            };
            nested.work_dir()
        };
        let plain = of("sm_90a", &[]);
        assert_ne!(plain, of("sm_90a", &["bounded-waits".to_owned()]));
        assert_ne!(plain, of("sm_100a", &[]));
        assert_eq!(plain, of("sm_90a", &[]));
    }
}
