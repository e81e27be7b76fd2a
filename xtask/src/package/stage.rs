//! A copy of the repository, in which packages get what only packages have.

use super::{Error, FOLDERS, succeed};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Copies the repository's files to `stage`, and returns the names of the packages. A file that is there already keeps
/// its time, so that cargo compiles again what has changed.
pub fn copy(root: &Path, stage: &Path) -> Result<Vec<String>, Error> {
    let mut git = Command::new("git");
    git.current_dir(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    for file in succeed(&mut git)?.split_terminator('\0') {
        let (from, to) = (root.join(file), stage.join(file));
        // A file that is deleted, but not from the index.
        if from.is_file() {
            put(&from, &to)?;
        }
    }
    let mut names = Vec::new();
    for folder in FOLDERS {
        if folder != "." {
            for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
                put(&root.join(licence), &stage.join(folder).join(licence))?;
            }
        }
        names.push(name(&stage.join(folder))?);
    }
    Ok(names)
}

fn put(from: &Path, to: &Path) -> Result<(), Error> {
    let folder = to.parent().map(Path::to_owned).unwrap_or_default();
    fs::create_dir_all(&folder).map_err(Error::io("cannot create", &folder))?;
    write(to, &fs::read(from).map_err(Error::io("cannot read", from))?)
}

/// Writes a file, unless it has these bytes.
pub fn write(file: &Path, bytes: &[u8]) -> Result<(), Error> {
    if fs::read(file).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    fs::write(file, bytes).map_err(Error::io("cannot write", file))
}

/// The name of the package in a folder.
fn name(folder: &Path) -> Result<String, Error> {
    let manifest: PathBuf = folder.join("Cargo.toml");
    let text = fs::read_to_string(&manifest).map_err(Error::io("cannot read", &manifest))?;
    let (_, package) = text.split_once("[package]\n").unwrap_or_default();
    let name = package.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
    let no_name = || Error::Wrong(format!("{} names no package", manifest.display()));
    name.map(str::to_owned).ok_or_else(no_name)
}
