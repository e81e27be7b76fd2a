//! Mutation test of the compile-fail cases and of the SM model: each case must fail when the check that it
//! tests is removed, and the model's tests must fail with a fault in the model.
//!
//! One mutation at a time is applied to a copy of the repository in `target/mutate`. The case must then
//! fail, because its mistake compiles. A case that still passes does not test the check, and a mutation
//! that does not compile does not test the case. Both are errors. So they are of a fault and its tests.

mod faults;
mod table;

use faults::FAULTS;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};
use table::MUTATIONS;

/// The message of trybuild when a case compiles.
const COMPILES: &str = "Expected test case to fail to compile, but it succeeded.";
/// The message of the harness when a test fails.
const FAILED: &str = "test result: FAILED";

/// An edit of a file: the file, a text that occurs in it once, and its replacement.
type Edit = (&'static str, &'static str, &'static str);

/// The removal of a check, or a fault, and what must detect it.
pub struct Mutation {
    /// Name of the compile-fail case, without extension, or of the fault.
    pub case: &'static str,
    /// Arguments of `cargo test` that choose the tests of a fault. None: the case is compiled.
    pub tests: &'static [&'static str],
    /// The edits.
    pub edits: &'static [Edit],
}

/// An error of the mutation test.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("git ls-files: {0}")]
    Git(String),
    #[error("no mutation's case contains {0}; see xtask/src/mutate/table.rs")]
    NoSuchCase(String),
    #[error(
        "{file} has {found} occurrences of the text that the mutation for {case} replaces, expected 1: {from}"
    )]
    Text { case: &'static str, file: &'static str, from: &'static str, found: usize },
    #[error("the tests fail before anything is changed:\n{0}")]
    Unchanged(String),
    #[error("{failed} of {all} mutations were not detected or do not compile")]
    Survivors { failed: usize, all: usize },
}

/// The outcome of a case or of tests under a mutation.
enum Outcome {
    /// The mistake compiled, and the case failed; or a test failed.
    Noticed,
    /// The case passed: the mistake is still refused, with the same message. Or all tests passed.
    Passed,
    /// Something else failed. Holds the end of cargo's output.
    Other(String),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Noticed => write!(f, "noticed"),
            Self::Passed => write!(f, "NOT DETECTED: what should fail passes"),
            Self::Other(output) => write!(f, "INVALID: other errors than expected\n{output}"),
        }
    }
}

/// Runs the mutations whose case contains any of `words`, or all of them.
pub fn run(words: &[&str]) -> Result<(), Error> {
    let chosen: Vec<&Mutation> = MUTATIONS
        .iter()
        .chain(FAULTS)
        .filter(|m| words.is_empty() || words.iter().any(|word| m.case.contains(word)))
        .collect();
    if chosen.is_empty() {
        return Err(Error::NoSuchCase(words.join(", ")));
    }
    let copy = Copy::of_the_repository()?;
    // A mutation whose text is missing is reported before anything runs.
    for mutation in &chosen {
        mutation.apply(&copy)?;
        copy.restore(mutation)?;
    }
    let mut unchanged: Vec<_> = chosen.iter().map(|mutation| mutation.tests).collect();
    unchanged.sort_unstable();
    unchanged.dedup();
    for tests in unchanged {
        let (passed, output) = copy.test(tests, "");
        if !passed {
            return Err(Error::Unchanged(tail(&output)));
        }
    }
    let mut failed = 0;
    for mutation in &chosen {
        mutation.apply(&copy)?;
        let (passed, output) = copy.test(mutation.tests, &format!("ui/{}.rs", mutation.case));
        copy.restore(mutation)?;
        let outcome = if passed {
            Outcome::Passed
        } else if output.contains(if mutation.tests.is_empty() { COMPILES } else { FAILED }) {
            Outcome::Noticed
        } else {
            Outcome::Other(tail(&output))
        };
        println!("{:34} {outcome}", mutation.case);
        failed += usize::from(!matches!(outcome, Outcome::Noticed));
    }
    if failed > 0 {
        return Err(Error::Survivors { failed, all: chosen.len() });
    }
    println!("{} mutations, each detected by its case or tests", chosen.len());
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
        // Files of an earlier copy that are no longer in the repository would be compiled too.
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

    /// Updates one file. An equal file keeps its modification time, so that cargo does not rebuild it.
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

    /// Runs `tests`, or if there are none the compile-fail cases whose path contains `filter`. Returns
    /// whether they pass, and the output.
    fn test(&self, tests: &[&str], filter: &str) -> (bool, String) {
        let filter = format!("trybuild={filter}");
        let cases = ["--package", "warpipe-pipeline", "--test", "compile_fail"];
        let cases = [&cases[..], &["--", "refusals_are_sentences", filter.as_str()]].concat();
        let result = Command::new("cargo")
            .args(["test", "--quiet"])
            .args(if tests.is_empty() { &cases } else { tests })
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
    use std::collections::{BTreeMap, BTreeSet};

    /// Cases without a mutation. `mutate/table.rs` says why.
    const WITHOUT: [&str; 6] = [
        "04_another_stage_count",
        "04_keys_for_values",
        "07_before_init",
        "09_another_side",
        "15_part_read_in_flight",
        "44_columns",
    ];

    #[test]
    fn every_edit_finds_its_text_once() {
        let root = crate::bundle::root();
        let mut wrong = Vec::new();
        for Mutation { case, edits, .. } in MUTATIONS.iter().chain(FAULTS) {
            // As `apply` does: a later edit sees what an earlier one of the same file has left.
            let mut texts = BTreeMap::new();
            for &(file, from, to) in *edits {
                let text = texts.entry(file).or_insert_with(|| read(&root.join(file)).unwrap());
                let found = text.matches(from).count();
                if found != 1 {
                    wrong.push(format!("{case}: {file} has {found} times: {from}"));
                }
                if from == to {
                    wrong.push(format!("{case}: {file} stays as it is: {from}"));
                }
                *text = text.replace(from, to);
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn every_case_has_one_mutation() {
        let cases: BTreeSet<String> = fs::read_dir(crate::bundle::root().join("pipeline/tests/ui"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter_map(|file| file.strip_suffix(".rs").map(str::to_owned))
            .filter(|case| !case.ends_with("_ok"))
            .collect();
        let mut mutated = BTreeSet::from(WITHOUT.map(str::to_owned));
        for mutation in MUTATIONS {
            assert!(mutated.insert(mutation.case.to_owned()), "{} stands twice", mutation.case);
        }
        assert_eq!(cases, mutated);
    }
}
