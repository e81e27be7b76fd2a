//! Finds a kernel crate by its package name among the dependencies of the package whose build script runs.
//!
//! cargo has resolved these dependencies already, and `cargo metadata` says where each of them lies: in the
//! workspace, at a path, in a git checkout or in the registry's folder.

use crate::{Error, toolchain::Toolchain};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// A kernel crate that was found by its name.
#[derive(Debug)]
pub(crate) struct Located {
    /// The crate's folder.
    pub dir: PathBuf,
    /// The root of the workspace that is being built.
    pub workspace: PathBuf,
    /// Whether the crate is a member of that workspace. Any other crate needs a workspace of its own for the device.
    pub member: bool,
    /// The sources that the workspace replaces in the crate's dependencies: `[patch.SOURCE.NAME]` and its keys.
    pub patches: BTreeMap<(String, String), Patch>,
}

/// What a `[patch]` puts in the place of a dependency.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Patch {
    /// A folder.
    Path(PathBuf),
    /// A commit of a repository.
    Git {
        /// The repository.
        url: String,
        /// The commit.
        rev: String,
    },
}

/// Finds the package `name` for the build script of the package in `builder`. `out_dir` lies in the target folder
/// of the workspace that is being built.
pub(crate) fn locate(
    toolchain: &Toolchain,
    name: &str,
    builder: &Path,
    out_dir: &Path,
) -> Result<Located, Error> {
    let manifest = builder.join("Cargo.toml");
    let manifest = manifest.canonicalize().map_err(Error::io("cannot resolve", &manifest))?;
    for root in roots(builder, out_dir) {
        // A folder that is something else's workspace is no error: the next one may be the right one.
        let Ok(graph) = graph(toolchain, &root) else { continue };
        if let Some(builder) = package_at(&graph, &manifest) {
            return find(&graph, name, builder);
        }
    }
    // For cargo's words.
    let graph = graph(toolchain, builder)?;
    let builder = package_at(&graph, &manifest).ok_or_else(|| Error::NoPackage {
        name: name.into(),
        builder: manifest.display().to_string(),
    })?;
    find(&graph, name, builder)
}

/// Folders that may hold the manifest of the workspace that is being built. The package of the build script may
/// itself come from a registry; then its own folder does not know what the workspace has chosen.
fn roots(builder: &Path, out_dir: &Path) -> Vec<PathBuf> {
    let above = |dir: &Path| {
        let found = dir.ancestors().find(|dir| dir.join("Cargo.lock").is_file());
        found.filter(|dir| dir.join("Cargo.toml").is_file()).map(Path::to_owned)
    };
    // The shell's folder, for a target folder that lies elsewhere: cargo changes the working folder, not the variable.
    let shell = env::var_os("PWD").map(PathBuf::from);
    let mut roots: Vec<PathBuf> =
        [above(out_dir), above(builder), shell.as_deref().and_then(above)]
            .into_iter()
            .flatten()
            .collect();
    roots.dedup();
    roots
}

/// What cargo has resolved for the workspace at `root`, on the platform of the outer build.
fn graph(toolchain: &Toolchain, root: &Path) -> Result<Value, Error> {
    let manifest = root.join("Cargo.toml");
    let mut command = Command::new(&toolchain.cargo);
    command
        .current_dir(root)
        .args(["metadata", "--format-version=1", "--manifest-path"])
        .arg(&manifest);
    // What other platforms need may not have been downloaded.
    if let Some(target) = env::var_os("TARGET") {
        command.arg("--filter-platform").arg(target);
    }
    let output = command.output().map_err(Error::io("cannot run", &toolchain.cargo))?;
    if output.status.success() {
        return Ok(serde_json::from_slice(&output.stdout).unwrap_or_default());
    }
    let text = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
    Err(Error::Tool {
        tool: "cargo metadata",
        status: output.status,
        input: manifest,
        output: text,
    })
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// The package whose manifest is `manifest`, an absolute path without links.
fn package_at<'a>(graph: &'a Value, manifest: &Path) -> Option<&'a Value> {
    list(graph, "packages").iter().find(|package| {
        let path = Path::new(text(package, "manifest_path"));
        path == manifest || path.canonicalize().is_ok_and(|path| path == manifest)
    })
}

/// Finds `name` among the dependencies of `builder`.
fn find(graph: &Value, name: &str, builder: &Value) -> Result<Located, Error> {
    let packages: BTreeMap<&str, &Value> =
        list(graph, "packages").iter().map(|package| (text(package, "id"), package)).collect();
    let nodes: BTreeMap<&str, &Value> =
        list(&graph["resolve"], "nodes").iter().map(|node| (text(node, "id"), node)).collect();
    let below = |id: &str| {
        let deps = nodes.get(id).map_or(&[][..], |node| list(node, "deps"));
        deps.iter().filter_map(|dep| packages.get(text(dep, "pkg")).copied()).collect::<Vec<_>>()
    };
    let unknown = || Error::NoPackage { name: name.into(), builder: text(builder, "name").into() };
    let package = below(text(builder, "id"))
        .into_iter()
        .find(|package| text(package, "name") == name)
        .ok_or_else(unknown)?;
    let dir = |package: &Value| {
        Path::new(text(package, "manifest_path")).parent().map(Path::to_owned).unwrap_or_default()
    };
    let mut patches = BTreeMap::new();
    let (mut seen, mut rest) = (BTreeSet::new(), vec![package]);
    while let Some(package) = rest.pop() {
        if !seen.insert(text(package, "id")) {
            continue;
        }
        for dependency in below(text(package, "id")) {
            rest.push(dependency);
            let declared = list(package, "dependencies")
                .iter()
                .find(|declared| text(declared, "name") == text(dependency, "name"));
            let Some(declared) = declared.and_then(|declared| declared["source"].as_str()) else {
                continue;
            };
            if let Some(patch) = patch(declared, dependency["source"].as_str(), || dir(dependency))
            {
                let name = text(dependency, "name").to_owned();
                patches.insert((source_key(declared).to_owned(), name), patch);
            }
        }
    }
    let member = list(graph, "workspace_members").contains(&package["id"]);
    let workspace = PathBuf::from(text(graph, "workspace_root"));
    Ok(Located { dir: dir(package), workspace, member, patches })
}

/// The patch by which a dependency that is declared with one source was resolved to another, if there is one.
fn patch(declared: &str, resolved: Option<&str>, dir: impl FnOnce() -> PathBuf) -> Option<Patch> {
    let Some(resolved) = resolved else { return Some(Patch::Path(dir())) };
    if source_key(declared) == source_key(resolved) {
        return None;
    }
    // `git+URL?branch=b#COMMIT`
    let (url, rev) = resolved.strip_prefix("git+")?.rsplit_once('#')?;
    let url = url.split('?').next().unwrap_or(url);
    Some(Patch::Git { url: url.to_owned(), rev: rev.to_owned() })
}

/// The key below `patch` of a source as `cargo metadata` writes it.
fn source_key(source: &str) -> &str {
    // The default registry has one name in all of its forms.
    if source.ends_with("/crates.io-index") {
        return "crates-io";
    }
    let source = source.split_once('+').map_or(source, |(_, url)| url);
    source.split(['?', '#']).next().unwrap_or(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGISTRY: &str = "registry+https://example.com/crates.io-index";

    #[test]
    fn a_patch_is_seen_in_what_was_resolved() {
        let dir = || PathBuf::from("/d");
        assert_eq!(patch(REGISTRY, Some(REGISTRY), dir), None);
        assert_eq!(patch(REGISTRY, None, dir), Some(Patch::Path("/d".into())));
        let git = "git+https://example.com/r?branch=main#0123";
        let commit = Patch::Git { url: "https://example.com/r".into(), rev: "0123".into() };
        assert_eq!(patch(REGISTRY, Some(git), dir), Some(commit));
        assert_eq!(patch("git+https://example.com/r?branch=main", Some(git), dir), None);
        assert_eq!(source_key(git), "https://example.com/r");
        assert_eq!(source_key(REGISTRY), "crates-io");
    }

    #[test]
    fn a_dependency_is_found_and_a_stranger_is_one_line() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let toolchain = Toolchain::find().unwrap();
        let found = locate(&toolchain, "warpipe-isa", here, here).unwrap();
        assert!(found.member && found.patches.is_empty(), "{found:?}");
        assert_eq!(found.dir.canonicalize().unwrap(), here.join("../isa").canonicalize().unwrap());
        let line = locate(&toolchain, "no-such-kernels", here, here).unwrap_err().to_string();
        assert_eq!(
            line,
            "warpipe-kernel-build has no dependency no-such-kernels: add it to its Cargo.toml, or name the \
             kernel crate's folder"
        );
    }
}
