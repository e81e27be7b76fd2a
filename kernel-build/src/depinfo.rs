//! Which files a device build read, so that cargo runs the build script again when one changes.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// The files that a Makefile-style `target: dep dep …` names, escapes (`\ `, `$$`) undone.
pub(crate) fn parse(text: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in text.lines() {
        // A target's path may hold a colon (Windows drives); a blank follows only the last one.
        let Some((_, deps)) = line.split_once(": ") else { continue };
        let mut file = String::new();
        let mut chars = deps.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '\\' if chars.peek() == Some(&' ') => {
                    file.push(' ');
                    chars.next();
                }
                '$' if chars.peek() == Some(&'$') => {
                    file.push('$');
                    chars.next();
                }
                ' ' => files.push(PathBuf::from(std::mem::take(&mut file))),
                c => file.push(c),
            }
        }
        files.push(PathBuf::from(file));
    }
    files.retain(|file| !file.as_os_str().is_empty());
    files
}

/// `files`, the manifests of the crates that they belong to, and the workspace's manifest and lock
/// file: features and versions are written there.
pub(crate) fn with_manifests(files: Vec<PathBuf>, crate_dir: &Path) -> BTreeSet<PathBuf> {
    let mut all: BTreeSet<PathBuf> = BTreeSet::new();
    let folders: BTreeSet<&Path> =
        files.iter().filter_map(|file| file.parent()).chain([crate_dir]).collect();
    for folder in folders {
        if let Some(manifest) = nearest(folder, "Cargo.toml") {
            all.insert(manifest);
        }
    }
    if let Some(lock) = nearest(crate_dir, "Cargo.lock") {
        all.insert(lock.with_file_name("Cargo.toml"));
        all.insert(lock);
    }
    all.extend(files);
    all
}

/// The file `name` in `folder` or the nearest folder above it.
fn nearest(folder: &Path, name: &str) -> Option<PathBuf> {
    folder.ancestors().map(|above| above.join(name)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_undone() {
        let text = "/t/libk.a: /w/a\\ b/src/lib.rs /w/c$$/x.rs\n\n/w/c: /w/d.rs\n/w/e:\n";
        assert_eq!(parse(text), ["/w/a b/src/lib.rs", "/w/c$/x.rs", "/w/d.rs"].map(PathBuf::from));
    }

    #[test]
    fn manifests_are_watched_too() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let all = with_manifests(vec![here.join("src/lib.rs")], here);
        assert!(all.contains(&here.join("Cargo.toml")));
        assert!(all.iter().any(|file| file.ends_with("Cargo.lock")));
    }
}
