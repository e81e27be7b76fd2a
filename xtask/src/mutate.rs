//! Mutation check of the compile-fail cases: does each of them notice when its stop is gone?
//!
//! One mutation at a time is applied to a copy of the repository in `target/mutate`; then the case
//! must fail because its mistake now compiles. A case that still passes proves nothing about the
//! stop, and a mutation that doesn't compile proves nothing about the case: both are errors.

mod table;

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};
use table::{MUTATIONS, Mutation};

/// What trybuild says when a case compiles.
const COMPILES: &str = "Expected test case to fail to compile, but it succeeded.";

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("git ls-files: {0}")]
    Git(String),
    #[error("no mutation's case contains {0}; see xtask/src/mutate/table.rs")]
    NoSuchCase(String),
    #[error("{file} has {found} times, not once, what the mutation for {case} replaces: {from}")]
    Text { case: &'static str, file: &'static str, from: &'static str, found: usize },
    #[error("the cases fail before anything is changed:\n{0}")]
    Unchanged(String),
    #[error("{failed} of {all} mutations were not noticed or do not compile")]
    Survivors { failed: usize, all: usize },
}

/// What a case did under a mutation.
enum Outcome {
    /// The mistake compiled, and the case said so.
    Noticed,
    /// The case passed: the mistake is still refused, in the same words.
    StillRefused,
    /// Something else failed: the end of what cargo said.
    Other(String),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Noticed => write!(f, "noticed"),
            Self::StillRefused => write!(f, "NOT NOTICED: the mistake is still refused"),
            Self::Other(output) => write!(f, "INVALID: other errors than expected\n{output}"),
        }
    }
}

/// Runs the mutations whose case contains any of `words`, or all of them.
pub fn run(words: &[&str]) -> Result<(), Error> {
    let chosen: Vec<&Mutation> = MUTATIONS
        .iter()
        .filter(|m| words.is_empty() || words.iter().any(|word| m.case.contains(word)))
        .collect();
    if chosen.is_empty() {
        return Err(Error::NoSuchCase(words.join(", ")));
    }
    let copy = Copy::of_the_repository()?;
    // A text that is gone is found before anything runs.
    for mutation in &chosen {
        mutation.apply(&copy)?;
        copy.restore(mutation)?;
    }
    let (passed, output) = copy.test("");
    if !passed {
        return Err(Error::Unchanged(tail(&output)));
    }
    let mut failed = 0;
    for mutation in &chosen {
        mutation.apply(&copy)?;
        let (passed, output) = copy.test(&format!("ui/{}.rs", mutation.case));
        copy.restore(mutation)?;
        let outcome = if passed {
            Outcome::StillRefused
        } else if output.contains(COMPILES) {
            Outcome::Noticed
        } else {
            Outcome::Other(tail(&output))
        };
        println!("{:32} {outcome}", mutation.case);
        failed += usize::from(!matches!(outcome, Outcome::Noticed));
    }
    if failed > 0 {
        return Err(Error::Survivors { failed, all: chosen.len() });
    }
    println!("{} mutations, each noticed by its case", chosen.len());
    Ok(())
}

/// The last lines of a program's output.
fn tail(output: &str) -> String {
    let lines: Vec<&str> = output.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}

impl Mutation {
    fn apply(&self, copy: &Copy) -> Result<(), Error> {
        for &(file, from, to) in self.edits {
            let text = read(&copy.tree.join(file))?;
            let found = text.matches(from).count();
            if found != 1 {
                return Err(Error::Text { case: self.case, file, from, found });
            }
            write(&copy.tree.join(file), text.replace(from, to).as_bytes())?;
        }
        Ok(())
    }
}

/// A copy of the repository's files, and a folder for what cargo builds of it.
struct Copy {
    root: PathBuf,
    tree: PathBuf,
    build: PathBuf,
}

impl Copy {
    fn of_the_repository() -> Result<Self, Error> {
        let root = crate::bundle::root();
        let (tree, build) = (root.join("target/mutate/tree"), root.join("target/mutate/build"));
        let listed = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(&root)
            .output()
            .map_err(|e| Error::Git(e.to_string()))?;
        if !listed.status.success() {
            return Err(Error::Git(String::from_utf8_lossy(&listed.stderr).into_owned()));
        }
        let copy = Self { root, tree, build };
        let names = String::from_utf8_lossy(&listed.stdout).into_owned();
        let names: Vec<&str> = names.split('\0').filter(|name| !name.is_empty()).collect();
        // Files of an earlier copy that are no longer in the repository would still be compiled.
        let ui = copy.tree.join("pipeline/tests/ui");
        if ui.exists() {
            fs::remove_dir_all(&ui).map_err(|source| Error::File { path: ui, source })?;
        }
        for name in names {
            if copy.root.join(name).is_file() {
                copy.refresh(name)?;
            }
        }
        Ok(copy)
    }

    /// Brings one file up to date; an equal one keeps its time, and cargo what it has built of it.
    fn refresh(&self, name: &str) -> Result<(), Error> {
        let (from, to) = (self.root.join(name), self.tree.join(name));
        let wanted = fs::read(&from).map_err(|source| Error::File { path: from, source })?;
        if fs::read(&to).is_ok_and(|there| there == wanted) {
            return Ok(());
        }
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder)
                .map_err(|source| Error::File { path: folder.to_path_buf(), source })?;
        }
        write(&to, &wanted)
    }

    fn restore(&self, mutation: &Mutation) -> Result<(), Error> {
        mutation.edits.iter().try_for_each(|(file, ..)| self.refresh(file))
    }

    /// Runs the compile-fail cases whose path contains `filter`: whether they pass, and the output.
    fn test(&self, filter: &str) -> (bool, String) {
        let result = Command::new("cargo")
            .args(["test", "--quiet", "--package", "warpipe-pipeline", "--test", "compile_fail"])
            .args(["--", "refusals_are_sentences", &format!("trybuild={filter}")])
            .env("CARGO_TARGET_DIR", &self.build)
            .current_dir(&self.tree)
            .output();
        match result {
            Ok(output) => {
                let text = [output.stdout, output.stderr].concat();
                (output.status.success(), String::from_utf8_lossy(&text).into_owned())
            }
            Err(e) => (false, e.to_string()),
        }
    }
}

fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|source| Error::File { path: path.to_path_buf(), source })
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    fs::write(path, bytes).map_err(|source| Error::File { path: path.to_path_buf(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Prose changes often, so no mutation may depend on it.
    #[test]
    fn each_text_is_code_that_its_file_has_once() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for mutation in MUTATIONS {
            for &(file, from, _) in mutation.edits {
                let text = fs::read_to_string(root.join(file)).expect("a file of the repository");
                assert_eq!(text.matches(from).count(), 1, "{}, {file}: {from}", mutation.case);
                assert!(!from.contains("///"), "{}, {file}: {from}", mutation.case);
            }
        }
    }
}
