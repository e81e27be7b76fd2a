//! The bundle: everything that runs, in one folder, for machines without a toolchain.
//!
//! ```text
//! bundle/
//!   warpipe           the command
//!   tests/            test programs, named <package>.<target>
//!   benches/          benchmark programs, likewise
//!   examples/         examples, likewise
//!   run-tests         runs every test program
//!   manifest.json     what is in here, from which commit and compiler
//! ```
//! A test finds the command through `WARPIPE_BIN`, which `run-tests` sets: the path that cargo
//! compiled into it does not exist elsewhere.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

/// A bundle is there to be copied: it stays small enough for that.
const MAX_BYTES: u64 = 64 << 20;
/// Marks a folder as a bundle, so that nothing else is ever deleted.
const MANIFEST: &str = "manifest.json";

/// Packages whose tests run rustc, cargo or LLVM, which a machine without a toolchain lacks.
const NEED_TOOLCHAIN: [&str; 3] = ["warpipe-kernel-build", "warpipe-macros", "xtask"];
/// Test programs of other packages that do.
const NEED_TOOLCHAIN_TARGETS: [&str; 3] = ["assembles", "compile_fail", "kernel_errors"];

const RUN_TESTS: &str = r#"#!/bin/sh
# Runs every test program of this folder. Arguments go to each of them: a filter, --ignored, ...
here=$(cd "$(dirname "$0")" && pwd) || exit 1
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
WARPIPE_BIN="$here/warpipe"
export WARPIPE_BIN
cd "$scratch" || exit 1
failed=""
for test in "$here"/tests/*; do
    echo "== ${test##*/}"
    "$test" "$@" || failed="$failed ${test##*/}"
done
if [ -n "$failed" ]; then
    echo "failed:$failed" >&2
    exit 1
fi
echo "all passed"
"#;

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("unknown option {0}; --release and --out DIR are known")]
    Option(String),
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{command}: {reason}")]
    Command { command: String, reason: String },
    #[error("{} exists and is not a bundle (it has no {MANIFEST}); move it away or give --out DIR", .0.display())]
    NotABundle(PathBuf),
    #[error("cargo built no program named warpipe")]
    NoProgram,
    #[error("the bundle has {bytes} bytes, more than {MAX_BYTES}; largest: {largest}")]
    TooLarge { bytes: u64, largest: String },
}

/// Options of the chore.
#[derive(Debug)]
pub struct Options {
    release: bool,
    out: PathBuf,
}

impl Options {
    /// Parses what stands behind `bundle`.
    pub fn parse(mut words: &[&str]) -> Result<Self, Error> {
        let mut options = Self { release: false, out: root().join("bundle") };
        loop {
            words = match words {
                [] => return Ok(options),
                ["--release", rest @ ..] => {
                    options.release = true;
                    rest
                }
                ["--out", folder, rest @ ..] => {
                    options.out = folder.into();
                    rest
                }
                [other, ..] => return Err(Error::Option((*other).to_owned())),
            }
        }
    }
}

/// What `cargo build --message-format json` says of one artifact, as far as it matters here.
#[derive(Deserialize)]
struct Message {
    reason: String,
    package_id: Option<String>,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
    name: String,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

#[derive(Serialize)]
struct Manifest {
    commit: String,
    rustc: String,
    profile: &'static str,
    files: Vec<Entry>,
    /// Test programs that are left out, since they need a toolchain.
    left_out: Vec<String>,
}

#[derive(Serialize)]
struct Entry {
    path: String,
    bytes: u64,
}

/// A program that cargo built.
struct Program {
    from: PathBuf,
    /// Path in the bundle; none if it is left out.
    to: Option<String>,
    name: String,
}

/// Builds the bundle.
pub fn run(options: &Options) -> Result<(), Error> {
    let programs = build(options.release)?;
    if !programs.iter().any(|p| p.to.as_deref() == Some("warpipe")) {
        return Err(Error::NoProgram);
    }
    clear(&options.out)?;
    let strip = strip_tool()?;
    let mut manifest = Manifest {
        commit: output("git", &["describe", "--always", "--dirty", "--abbrev=40"])
            .unwrap_or_else(|_| "unknown".to_owned()),
        rustc: output("rustc", &["--version"])?,
        profile: if options.release { "release" } else { "dev" },
        files: Vec::new(),
        left_out: Vec::new(),
    };
    for program in programs {
        let Some(path) = program.to else {
            manifest.left_out.push(program.name);
            continue;
        };
        let to = options.out.join(&path);
        let (from, text) = (program.from.display().to_string(), to.display().to_string());
        output(&strip, &["--strip-all", &from, "-o", &text])?;
        let bytes = fs::metadata(&to).map_err(|source| Error::File { path: to, source })?.len();
        manifest.files.push(Entry { path, bytes });
    }
    write_script(&options.out.join("run-tests"))?;
    manifest.files.sort_by(|a, b| a.path.cmp(&b.path));
    let json = serde_json::to_string_pretty(&manifest).map_err(|e| Error::Command {
        command: "writing the manifest".to_owned(),
        reason: e.to_string(),
    })?;
    write(&options.out.join(MANIFEST), &json)?;
    report(&options.out, &manifest)
}

/// Builds everything that runs and says where it lies.
fn build(release: bool) -> Result<Vec<Program>, Error> {
    let tests = cargo(&["test", "--no-run", "--lib", "--bins", "--tests", "--benches"], release)?;
    let rest = cargo(&["build", "--bins", "--examples"], release)?;
    let mut programs: Vec<Program> = tests
        .lines()
        .chain(rest.lines())
        .filter_map(|line| serde_json::from_str::<Message>(line).ok())
        .filter_map(place)
        .collect();
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    programs.dedup_by(|a, b| a.name == b.name);
    Ok(programs)
}

/// Runs cargo on the workspace and gives its messages. What rustc has to say goes to stderr.
fn cargo(arguments: &[&str], release: bool) -> Result<String, Error> {
    let program = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = Command::new(program);
    command.current_dir(root()).args(arguments);
    command.args(["--workspace", "--message-format=json-render-diagnostics"]);
    if release {
        command.arg("--release");
    }
    let fail = |reason: String| Error::Command {
        command: format!("cargo {}", arguments.join(" ")),
        reason,
    };
    let built = command.stderr(Stdio::inherit()).output().map_err(|e| fail(e.to_string()))?;
    if !built.status.success() {
        return Err(fail(built.status.to_string()));
    }
    Ok(String::from_utf8_lossy(&built.stdout).into_owned())
}

/// Where an artifact goes.
fn place(message: Message) -> Option<Program> {
    let (from, target) = (message.executable?, message.target?);
    let test = message.profile?.test;
    if message.reason != "compiler-artifact" {
        return None;
    }
    let kind = target.kind.first().map_or("", String::as_str);
    let package = package_name(&message.package_id?);
    let name = format!("{package}.{}{}", target.name, if kind == "bin" { "-bin" } else { "" });
    let needs_toolchain = NEED_TOOLCHAIN.contains(&package.as_str())
        || NEED_TOOLCHAIN_TARGETS.contains(&target.name.as_str());
    let to = match (kind, test) {
        ("bin", false) if target.name == "warpipe" => Some("warpipe".to_owned()),
        ("custom-build", _) | ("bin", false) => return None,
        ("example", false) if needs_toolchain => return None,
        ("example", false) => Some(format!("examples/{name}")),
        _ if needs_toolchain => None,
        ("bench", _) => Some(format!("benches/{name}")),
        _ if !has_tests(&from) => return None,
        _ => Some(format!("tests/{name}")),
    };
    let name = if to.as_deref() == Some("warpipe") { "warpipe".to_owned() } else { name };
    Some(Program { from, to, name })
}

/// Whether a test program has any tests.
fn has_tests(program: &Path) -> bool {
    let list = Command::new(program).arg("--list").output();
    list.is_ok_and(|list| String::from_utf8_lossy(&list.stdout).contains(": test"))
}

/// The name in a package id such as `path+file:///w/host#warpipe-host@0.1.0` or `...w/xtask#0.1.0`.
fn package_name(id: &str) -> String {
    let (path, fragment) = id.rsplit_once('#').unwrap_or(("", id));
    match fragment.split_once('@') {
        Some((name, _)) => name.to_owned(),
        None => path.rsplit('/').next().unwrap_or(fragment).to_owned(),
    }
}

/// Makes an empty folder with its subfolders; deletes an older bundle, and nothing else.
fn clear(folder: &Path) -> Result<(), Error> {
    let fail = |source| Error::File { path: folder.to_path_buf(), source };
    if folder.exists() {
        let empty = fs::read_dir(folder).map_err(fail)?.next().is_none();
        if !empty && !folder.join(MANIFEST).is_file() {
            return Err(Error::NotABundle(folder.to_path_buf()));
        }
        fs::remove_dir_all(folder).map_err(fail)?;
    }
    fs::create_dir_all(folder.join("tests")).map_err(fail)?;
    fs::create_dir_all(folder.join("benches")).map_err(fail)?;
    fs::create_dir_all(folder.join("examples")).map_err(fail)
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(|source| Error::File { path: path.to_path_buf(), source })
}

fn write_script(path: &Path) -> Result<(), Error> {
    write(path, RUN_TESTS)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))
            .map_err(|source| Error::File { path: path.to_path_buf(), source })?;
    }
    Ok(())
}

/// Prints what there is, and refuses a bundle that can't be sent.
fn report(folder: &Path, manifest: &Manifest) -> Result<(), Error> {
    let bytes: u64 = manifest.files.iter().map(|f| f.bytes).sum();
    println!(
        "{}: {} programs, {:.1} MiB; left out (they need a toolchain): {}",
        folder.display(),
        manifest.files.len(),
        bytes as f64 / f64::from(1 << 20),
        if manifest.left_out.is_empty() { "none".to_owned() } else { manifest.left_out.join(", ") }
    );
    if bytes <= MAX_BYTES {
        return Ok(());
    }
    let mut files: Vec<&Entry> = manifest.files.iter().collect();
    files.sort_by_key(|f| std::cmp::Reverse(f.bytes));
    let largest: Vec<String> =
        files.iter().take(3).map(|f| format!("{} ({})", f.path, f.bytes)).collect();
    Err(Error::TooLarge { bytes, largest: largest.join(", ") })
}

/// `llvm-strip`'s sibling from the pinned toolchain's own component llvm-tools.
fn strip_tool() -> Result<String, Error> {
    let sysroot = output("rustc", &["--print", "sysroot"])?;
    let version = output("rustc", &["-vV"])?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
    let tool = Path::new(&sysroot).join("lib/rustlib").join(host).join("bin/llvm-strip");
    if tool.is_file() {
        return Ok(tool.display().to_string());
    }
    Err(Error::Command {
        command: tool.display().to_string(),
        reason: "not there; `rustup toolchain install` in this folder installs it".to_owned(),
    })
}

/// Runs a command and gives its output, trimmed.
fn output(program: &str, arguments: &[&str]) -> Result<String, Error> {
    let fail = |reason: String| Error::Command {
        command: format!("{program} {}", arguments.join(" ")),
        reason,
    };
    let done = Command::new(program)
        .current_dir(root())
        .args(arguments)
        .output()
        .map_err(|e| fail(e.to_string()))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        return Err(fail(format!("{}: {}", done.status, said.trim())));
    }
    Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
}

/// The workspace's folder.
pub fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_path_buf()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_names() {
        assert_eq!(package_name("path+file:///w/host#warpipe-host@0.1.0"), "warpipe-host");
        assert_eq!(package_name("path+file:///w/xtask#0.1.0"), "xtask");
    }

    #[test]
    fn a_folder_that_is_no_bundle_is_left_alone() {
        let folder = std::env::temp_dir().join(format!("xtask-test-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("precious"), "x").unwrap();
        assert!(matches!(clear(&folder), Err(Error::NotABundle(_))));
        assert!(folder.join("precious").is_file());
        fs::write(folder.join(MANIFEST), "{}").unwrap();
        clear(&folder).unwrap();
        assert!(!folder.join("precious").exists() && folder.join("tests").is_dir());
        fs::remove_dir_all(&folder).unwrap();
    }
}
