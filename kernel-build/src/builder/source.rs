//! Where the kernel crate is, and from which folder it is built.

use crate::{
    Error,
    blame::clean,
    package,
    toolchain::Toolchain,
    workspace::{self, Wanted},
};
use serde_json::Value;
use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// Where the kernel crate is.
#[derive(Clone, Debug)]
pub(super) enum Crate {
    Folder(PathBuf),
    Package(String),
}

/// What is asked of the kernel crate.
pub(super) struct Asked<'a> {
    pub kernel_crate: &'a Crate,
    pub features: &'a [String],
    pub default_features: bool,
}

impl Asked<'_> {
    /// Finds the kernel crate, and writes a workspace for it if it has none.
    pub fn source(
        &self,
        toolchain: &Toolchain,
        out_dir: &Path,
        target_dir: &Path,
    ) -> Result<Source, Error> {
        let builder = || {
            let dir = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
            dir.ok_or(Error::NoEnv("CARGO_MANIFEST_DIR"))
        };
        let package = match self.kernel_crate {
            Crate::Folder(dir) => {
                let dir = if dir.is_absolute() { dir.clone() } else { builder()?.join(dir) };
                let crate_dir = absolute(&dir)?;
                return Ok(Source::in_place(library(toolchain, &crate_dir)?, crate_dir));
            }
            Crate::Package(package) => package,
        };
        let located = package::locate(toolchain, package, &builder()?, out_dir)?;
        let crate_dir = absolute(&located.dir)?;
        let library = library(toolchain, &crate_dir)?;
        if located.member {
            return Ok(Source::in_place(library, crate_dir));
        }
        let Library { name, .. } = library;
        let wanted = Wanted {
            package,
            lib_name: &name,
            features: self.features,
            default_features: self.default_features,
        };
        let build_dir = absolute(&workspace::write(&wanted, &located, target_dir)?)?;
        let shown_from = clean(&located.workspace);
        Ok(Source { crate_dir, build_dir, run_in: located.workspace, name, shown_from })
    }
}

/// What the nested cargo builds.
pub(super) struct Source {
    /// The kernel crate's folder.
    pub crate_dir: PathBuf,
    /// The folder of the package that is built: the kernel crate, or one whose only dependency it is.
    pub build_dir: PathBuf,
    /// The working folder of cargo, in and above which it looks for its configuration.
    pub run_in: PathBuf,
    /// The kernel crate's library name.
    pub name: String,
    /// The folder relative to which messages show paths: the workspace.
    pub shown_from: PathBuf,
}

impl Source {
    /// The kernel crate is built in its own workspace.
    fn in_place(library: Library, crate_dir: PathBuf) -> Self {
        let Library { name, workspace } = library;
        let (build_dir, run_in) = (crate_dir.clone(), crate_dir.clone());
        Self { build_dir, run_in, crate_dir, name, shown_from: workspace }
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
pub(super) fn nested_target_dir(out_dir: &Path) -> PathBuf {
    // cargo writes the first file into every target folder, and the second one only into a folder that it
    // created.
    const MARKS: [&str; 2] = [".rustc_info.json", "CACHEDIR.TAG"];
    let target = out_dir.ancestors().find(|dir| MARKS.iter().any(|mark| dir.join(mark).is_file()));
    target.unwrap_or(out_dir).join("kernel-build")
}

/// What `cargo metadata` says of the kernel crate.
struct Library {
    /// The name of the library target.
    name: String,
    /// The folder of its workspace.
    workspace: PathBuf,
}

fn library(toolchain: &Toolchain, crate_dir: &Path) -> Result<Library, Error> {
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
        .map(|name| Library {
            name: name.replace('-', "_"),
            workspace: clean(Path::new(metadata["workspace_root"].as_str().unwrap_or_default())),
        })
        .ok_or(Error::NoLibrary(manifest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

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
