//! The bundle: a folder with the programs that use a GPU, for machines without a toolchain.
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
//! It has the programs that can use a device (those of packages linked to the one that calls the driver)
//! and that need no toolchain, or the programs that `--only` names. A test finds the command through
//! `WARPIPE_BIN`, which `run-tests` sets, because the path that cargo compiled into the test does not exist
//! on other machines.

mod devices;
mod options;
mod programs;

pub use options::Options;

use options::KNOWN;
use programs::Why;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

/// Size in bytes above which a warning names the largest programs.
const MANY_BYTES: u64 = 256 << 20;
/// File that marks a folder as a bundle. Only such a folder is ever deleted.
const MANIFEST: &str = "manifest.json";

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

/// An error of the bundle.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("unknown option {0}; {KNOWN} are known")]
    Option(String),
    #[error("{0} needs a value")]
    NoValue(String),
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{command}: {reason}")]
    Command { command: String, reason: String },
    #[error("{} exists and is not a bundle (it has no {MANIFEST}); move it away or give --out DIR", .0.display())]
    NotABundle(PathBuf),
    #[error("cargo built no program named warpipe")]
    NoProgram,
    #[error("no program's name contains {word}; there are: {have}")]
    NoSuch { word: String, have: String },
}

#[derive(Serialize)]
struct Manifest {
    commit: String,
    rustc: String,
    profile: &'static str,
    files: Vec<Entry>,
    /// Programs that are left out.
    left_out: Vec<Left>,
}

#[derive(Serialize)]
struct Left {
    program: String,
    why: Why,
}

#[derive(Serialize)]
struct Entry {
    path: String,
    bytes: u64,
}

/// Builds the bundle.
pub fn run(options: &Options) -> Result<(), Error> {
    // Said before the build, which takes minutes.
    refuse_what_is_not_a_bundle(&options.out)?;
    let devices = devices::packages()?;
    let programs = programs::build(options)?;
    if !programs.iter().any(|p| p.folder.is_none()) {
        return Err(Error::NoProgram);
    }
    for word in &options.only {
        if !programs.iter().any(|p| p.folder.is_some() && p.name.contains(word.as_str())) {
            let have: Vec<_> = programs.iter().map(|p| p.name.as_str()).collect();
            return Err(Error::NoSuch { word: word.clone(), have: have.join(", ") });
        }
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
        let path = match program.goes_to(options, &devices) {
            Ok(path) => path,
            Err(why) => {
                manifest.left_out.push(Left { program: program.name, why });
                continue;
            }
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
    report(&options.out, &manifest);
    Ok(())
}

/// An error if there is a folder with other files than a bundle's.
fn refuse_what_is_not_a_bundle(folder: &Path) -> Result<(), Error> {
    if !folder.exists() || folder.join(MANIFEST).is_file() {
        return Ok(());
    }
    let fail = |source| Error::File { path: folder.to_path_buf(), source };
    let empty = fs::read_dir(folder).map_err(fail)?.next().is_none();
    if empty { Ok(()) } else { Err(Error::NotABundle(folder.to_path_buf())) }
}

/// Makes an empty folder with its subfolders. Deletes an older bundle, but no other folder.
fn clear(folder: &Path) -> Result<(), Error> {
    refuse_what_is_not_a_bundle(folder)?;
    let fail = |source| Error::File { path: folder.to_path_buf(), source };
    if folder.exists() {
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

/// Prints a summary, and the largest programs if the bundle is large.
fn report(folder: &Path, manifest: &Manifest) {
    let bytes: u64 = manifest.files.iter().map(|f| f.bytes).sum();
    let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
    let left = |why| manifest.left_out.iter().filter(|l| l.why == why).count();
    println!(
        "{}: {} programs, {}; left out: {} that need a toolchain, {} that reach no device, {} that \
         --only does not name",
        folder.display(),
        manifest.files.len(),
        mib(bytes),
        left(Why::NeedsToolchain),
        left(Why::ReachesNoDevice),
        left(Why::NotAskedFor)
    );
    if bytes > MANY_BYTES {
        let mut files: Vec<&Entry> = manifest.files.iter().collect();
        files.sort_by_key(|f| std::cmp::Reverse(f.bytes));
        let largest = files.iter().take(3).map(|f| format!("{} ({})", f.path, mib(f.bytes)));
        let largest = largest.collect::<Vec<_>>().join(", ");
        eprintln!(
            "warning: {} are much to copy: --only WORD takes fewer programs; largest: {largest}",
            mib(bytes)
        );
    }
}

/// Path of the strip program of the pinned toolchain's component llvm-tools.
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

/// Runs a command and returns its output, trimmed.
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
