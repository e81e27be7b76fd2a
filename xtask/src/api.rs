//! The public API of each published library, as text: `docs/api`.
//!
//! rustdoc writes what a library exports as JSON, and public-api makes a line of each item. A change of the API is
//! thus a change of a file that a reviewer sees; docs/api-policy.md says which changes need which version.

use crate::package::{Error, FOLDERS, cargo, stage, succeed};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Features with which a library is listed, if not its default ones. The kernels of the table, and those that are
/// compiled with warpipe, are no API; and features that only change what a device build does add nothing.
const FEATURES: [(&str, &str); 2] = [("warpipe-host", "reference"), ("warpipe", "reference")];
/// An image without kernels, in the place of the one that a package has.
const NO_IMAGE: &str = "__warpipe_isa::kernel::Image { name: \"none\", arch: \"sm_90a\", code: &[], kernels: &[], ptxas: None, others: &[] }\n";

/// Compares the API with the files, or writes the files with `--bless`.
pub fn run(options: &[&str]) -> Result<(), Error> {
    let bless = match options {
        [] => false,
        ["--bless"] => true,
        [other, ..] => return Err(Error::Option { given: (*other).to_owned(), known: "--bless" }),
    };
    let root = crate::bundle::root();
    let (work, listed) = (root.join("target/api"), root.join("docs/api"));
    let copy = work.join("stage");
    stage::copy(&root, &copy)?;
    let prebuilt = copy.join("prebuilt");
    fs::create_dir_all(&prebuilt).map_err(Error::io("cannot create", &prebuilt))?;
    stage::write(&prebuilt.join("warpipe_gpu_kernels.rs"), NO_IMAGE.as_bytes())?;
    fs::create_dir_all(&listed).map_err(Error::io("cannot create", &listed))?;
    let mut differences = String::new();
    for folder in FOLDERS {
        let Some(library) = library(&copy.join(folder))? else { continue };
        let text = listing(&copy, &work.join("cargo"), &library)?;
        let file = listed.join(format!("{}.txt", library.package));
        if bless {
            stage::write(&file, text.as_bytes())?;
            continue;
        }
        let before = fs::read_to_string(&file).unwrap_or_default();
        differences += &difference(&library.package, &before, &text);
    }
    if differences.is_empty() {
        return Ok(());
    }
    Err(Error::Wrong(format!(
        "the public API is not the one in docs/api:\n{differences}read docs/api-policy.md, then write the files with \
         `cargo xtask api --bless`"
    )))
}

/// A published library.
struct Library {
    package: String,
    /// The name of its target.
    name: String,
    features: Vec<String>,
}

/// The library of the package in `folder`; none for a package of programs.
fn library(folder: &Path) -> Result<Option<Library>, Error> {
    let text = succeed(cargo(folder).args(["metadata", "--no-deps", "--format-version=1"]))?;
    let metadata: Value = serde_json::from_str(&text).unwrap_or_default();
    let manifest = folder.join("Cargo.toml");
    let manifest = manifest.canonicalize().map_err(Error::io("cannot resolve", &manifest))?;
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    let here = |package: &&Value| {
        let path = package["manifest_path"].as_str().map(Path::new);
        path.and_then(|path| path.canonicalize().ok()).is_some_and(|path| path == manifest)
    };
    let nothing = || Error::Wrong(format!("{} is no package", manifest.display()));
    let package = packages.iter().find(here).ok_or_else(nothing)?;
    let is_library = |target: &&Value| {
        let kinds = target["kind"].as_array().map_or(&[][..], Vec::as_slice);
        kinds.iter().any(|kind| kind == "lib" || kind == "proc-macro")
    };
    let targets = package["targets"].as_array().map_or(&[][..], Vec::as_slice);
    let Some(target) = targets.iter().find(is_library) else { return Ok(None) };
    let features = package["features"].as_object();
    Ok(Some(Library {
        package: package["name"].as_str().unwrap_or_default().to_owned(),
        name: target["name"].as_str().unwrap_or_default().replace('-', "_"),
        features: features.into_iter().flat_map(|features| features.keys().cloned()).collect(),
    }))
}

/// The features and the items of a library, a line each.
fn listing(workspace: &Path, target: &Path, library: &Library) -> Result<String, Error> {
    let Library { package, name, features } = library;
    let mut rustdoc = cargo(workspace);
    // rustdoc's JSON is unstable; the pinned compiler writes the form that the pinned public-api reads.
    rustdoc.env("RUSTC_BOOTSTRAP", "1").args(["rustdoc", "--quiet", "--lib", "--package", package]);
    rustdoc.arg("--target-dir").arg(target);
    if let Some((_, features)) = FEATURES.iter().find(|(of, _)| of == package) {
        rustdoc.args(["--features", features]);
    }
    succeed(rustdoc.args([
        "--",
        "-Zunstable-options",
        "--output-format",
        "json",
        "--cap-lints",
        "allow",
    ]))?;
    let json = target.join("doc").join(format!("{name}.json"));
    let api = public_api::Builder::from_rustdoc_json(&json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()
        .map_err(|e| Error::Wrong(format!("{}: {e}", json.display())))?;
    let mut text = String::new();
    for feature in features {
        let _ = writeln!(text, "feature {feature}");
    }
    for item in api.items() {
        let _ = writeln!(text, "{item}");
    }
    Ok(text)
}

/// The lines that only one of two listings has.
fn difference(package: &str, before: &str, now: &str) -> String {
    let [old, new] = [before, now].map(|text| text.lines().collect::<BTreeSet<_>>());
    let mut text = String::new();
    for line in old.difference(&new) {
        let _ = writeln!(text, "- {package}: {line}");
    }
    for line in new.difference(&old) {
        let _ = writeln!(text, "+ {package}: {line}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_what_went_and_what_came() {
        assert_eq!(difference("p", "a\nb\n", "a\nb\n"), "");
        assert_eq!(difference("p", "a\nb\n", "b\nc\n"), "- p: a\n+ p: c\n");
    }
}
