//! The programs that cargo builds, and the choice of those that go into a bundle.

use super::{Error, Options, root};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Packages whose tests need rustc, cargo or LLVM.
const NEED_TOOLCHAIN: [&str; 3] = ["warpipe-kernel-build", "warpipe-macros", "xtask"];
/// Test programs of other packages that need a toolchain.
const NEED_TOOLCHAIN_TARGETS: [&str; 2] = ["compile_fail", "toolchain"];

/// The used fields of an artifact message of `cargo build --message-format json`.
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

/// Why a program is not in the bundle.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    NeedsToolchain,
    ReachesNoDevice,
    NotAskedFor,
}

/// A program that cargo built.
pub struct Program {
    pub from: PathBuf,
    /// Its folder in the bundle; `None` for the command, which is in the bundle's root.
    pub folder: Option<&'static str>,
    package: String,
    pub name: String,
    needs_toolchain: bool,
}

impl Program {
    /// Its path in the bundle, or the reason why it is left out.
    pub fn goes_to(&self, options: &Options, devices: &HashSet<String>) -> Result<String, Why> {
        let Some(folder) = self.folder else { return Ok(self.name.clone()) };
        if !options.only.is_empty() && !options.names(&self.name) {
            return Err(Why::NotAskedFor);
        }
        if self.needs_toolchain {
            return Err(Why::NeedsToolchain);
        }
        if options.only.is_empty() && !devices.contains(&self.package) {
            return Err(Why::ReachesNoDevice);
        }
        Ok(format!("{folder}/{}", self.name))
    }
}

/// Builds all programs and returns their paths.
pub fn build(options: &Options) -> Result<Vec<Program>, Error> {
    let tests = cargo(&["test", "--no-run", "--lib", "--bins", "--tests", "--benches"], options)?;
    let rest = cargo(&["build", "--bins", "--examples"], options)?;
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

/// Runs cargo on the workspace and returns its messages. Messages of rustc go to stderr.
fn cargo(arguments: &[&str], options: &Options) -> Result<String, Error> {
    let program = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = Command::new(program);
    command.current_dir(root()).args(arguments);
    command.args(["--workspace", "--message-format=json-render-diagnostics"]);
    if options.release {
        command.arg("--release");
    }
    for list in &options.features {
        command.args(["--features", list]);
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

/// The program of an artifact, if it is one.
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
    let (folder, name) = match (kind, test) {
        ("bin", false) if target.name == "warpipe" => (None, target.name),
        ("custom-build", _) | ("bin", false) => return None,
        ("example", false) if needs_toolchain => return None,
        ("example", false) => (Some("examples"), name),
        ("bench", _) => (Some("benches"), name),
        _ if !needs_toolchain && !has_tests(&from) => return None,
        _ => (Some("tests"), name),
    };
    Some(Program { from, folder, package, name, needs_toolchain })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_names() {
        assert_eq!(package_name("path+file:///w/host#warpipe-host@0.1.0"), "warpipe-host");
        assert_eq!(package_name("path+file:///w/xtask#0.1.0"), "xtask");
    }

    #[test]
    fn what_goes_in() {
        let program = |package: &str, folder, name: &str, needs_toolchain| Program {
            from: PathBuf::new(),
            folder,
            package: package.to_owned(),
            name: name.to_owned(),
            needs_toolchain,
        };
        let tests = Some("tests");
        let command = program("warpipe", None, "warpipe", false);
        let zero_cost = program("warpipe", tests, "warpipe.gpu_zero_cost", false);
        let races = program("warpipe-sim", tests, "warpipe-sim.races", false);
        let bench = program("warpipe", Some("benches"), "warpipe.gemm", false);
        let isa = program("warpipe-isa", tests, "warpipe-isa.toolchain", true);
        let devices = HashSet::from(["warpipe".to_owned()]);
        let with = |words: &[&str]| {
            let options = Options::parse(words).unwrap();
            [&command, &zero_cost, &races, &bench, &isa].map(|p| p.goes_to(&options, &devices))
        };
        let goes = |path: &str| Ok(path.to_owned());
        let (toolchain, no_device, not_asked) =
            (Err(Why::NeedsToolchain), Err(Why::ReachesNoDevice), Err(Why::NotAskedFor));
        let [zero_cost, bench] = ["tests/warpipe.gpu_zero_cost", "benches/warpipe.gemm"].map(goes);
        assert_eq!(
            with(&[]),
            [goes("warpipe"), zero_cost.clone(), no_device, bench, toolchain.clone()]
        );
        // What is named is there, whatever it reaches, if it can run.
        let [races, no] = [goes("tests/warpipe-sim.races"), not_asked];
        let asked = with(&["--only", "gpu_", "--only", "sim.r", "--only", "isa.t"]);
        assert_eq!(asked, [goes("warpipe"), zero_cost, races, no, toolchain]);
    }
}
