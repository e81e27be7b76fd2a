//! A workspace for the device build of a kernel crate that comes from a registry, from git, or from a path
//! outside of the workspace that uses it.
//!
//! cargo can't set the features of a package that is no member, and the folder of a registry's package must not be
//! written to. So the crate becomes the only dependency of a package in the target folder, with the versions of the
//! outer workspace's lock file and with its patches.

use crate::{
    Error,
    package::{Located, Patch},
};
use std::{
    collections::hash_map::DefaultHasher,
    fmt::Write as _,
    fs,
    hash::{Hash, Hasher},
    path::{Path, PathBuf},
};

/// What the package asks of the kernel crate.
#[derive(Hash)]
pub(crate) struct Wanted<'a> {
    /// Package name.
    pub package: &'a str,
    /// Name of the library target, which the wrapping library has too.
    pub lib_name: &'a str,
    pub features: &'a [String],
    pub default_features: bool,
}

/// Writes the workspace below `target_dir` and returns its folder.
pub(crate) fn write(
    wanted: &Wanted<'_>,
    located: &Located,
    target_dir: &Path,
) -> Result<PathBuf, Error> {
    let mut hasher = DefaultHasher::new();
    (wanted, &located.dir).hash(&mut hasher);
    let dir =
        target_dir.join("packages").join(format!("{}-{:016x}", wanted.package, hasher.finish()));
    fs::create_dir_all(&dir).map_err(Error::io("cannot create", &dir))?;
    put(&dir.join("lib.rs"), "#![no_std]\nextern crate kernels as _;\n")?;
    put(&dir.join("Cargo.toml"), &manifest(wanted, located))?;
    // The nested cargo drops what the device does not need from the lock file. The copy of the original tells
    // whether the outer one has changed.
    let outer = located.workspace.join("Cargo.lock");
    if let Ok(text) = fs::read_to_string(&outer) {
        let copy = dir.join("outer.lock");
        if fs::read_to_string(&copy).ok().as_ref() != Some(&text) {
            put(&dir.join("Cargo.lock"), &text)?;
            put(&copy, &text)?;
        }
    }
    Ok(dir)
}

/// Writes a file, unless it has this text already: cargo looks at the time.
fn put(path: &Path, text: &str) -> Result<(), Error> {
    if fs::read_to_string(path).is_ok_and(|there| there == text) {
        return Ok(());
    }
    fs::write(path, text).map_err(Error::io("cannot write", path))
}

/// TOML: Rust's string literals are TOML's basic strings for paths and names.
fn manifest(wanted: &Wanted<'_>, located: &Located) -> String {
    let Wanted { package, lib_name, features, default_features } = wanted;
    let mut text = format!(
        "[workspace]\n\n[package]\nname = \"device-build\"\nversion = \"0.0.0\"\nedition = \"2024\"\npublish = false\n\n\
         [lib]\nname = {lib_name:?}\npath = \"lib.rs\"\n\n\
         [dependencies.kernels]\npackage = {package:?}\npath = {:?}\ndefault-features = {default_features}\n\
         features = {features:?}\n",
        located.dir
    );
    for ((source, name), patch) in &located.patches {
        let _ = write!(text, "\n[patch.{source:?}.{name:?}]\n");
        let _ = match patch {
            Patch::Path(path) => writeln!(text, "path = {path:?}"),
            Patch::Git { url, rev } => writeln!(text, "git = {url:?}\nrev = {rev:?}"),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_has_features_and_patches() {
        let located = Located {
            dir: "/registry/my-kernels-1.0.0".into(),
            workspace: "/w".into(),
            member: false,
            patches: [(("crates-io".into(), "isa".into()), Patch::Path("/isa".into()))].into(),
        };
        let wanted = Wanted {
            package: "my-kernels",
            lib_name: "my_kernels",
            features: &["fast".into()],
            default_features: false,
        };
        let text = manifest(&wanted, &located);
        for part in [
            "[lib]\nname = \"my_kernels\"",
            "package = \"my-kernels\"\npath = \"/registry/my-kernels-1.0.0\"\ndefault-features = false\nfeatures = [\"fast\"]",
            "[patch.\"crates-io\".\"isa\"]\npath = \"/isa\"",
        ] {
            assert!(text.contains(part), "no `{part}` in\n{text}");
        }
    }
}
