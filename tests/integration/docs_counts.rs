//! The counts that the documentation states are those of the source.
//!
//! Each count has one page that must state it, as a number before a phrase: "94 GEMM kernels". Every other page
//! that uses the phrase after a number must state the same one. A measurement that depends on a count
//! ("68 mutations on 2026-11-22") stays as it was recorded, so its page uses another phrase for it.

use std::fs;
use std::path::{Path, PathBuf};
use warpipe::gpu_kernels::gemm::INSTANCES;
use warpipe_bench::suites::SUITES;

/// A count that pages state.
struct Count {
    /// The page that must state it.
    page: &'static str,
    /// What follows the number.
    phrase: &'static str,
    /// The number.
    source: usize,
}

/// The repository; none where this program runs without it, as in a bundle.
fn repository() -> Option<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let there = root.join("docs").is_dir();
    if !there {
        eprintln!("skipped: {} is not on this machine", root.display());
    }
    there.then_some(root)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The files of a folder whose names end in `end`, sorted.
fn files(folder: &Path, end: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|e| e.expect("readable").path()).collect();
    files.retain(|path| path.to_string_lossy().ends_with(end));
    files.sort();
    files
}

/// The lines of every block of `source` that begins with `head` at the start of a line and ends with `}` there.
fn blocks<'a>(source: &'a str, head: &str) -> Vec<&'a str> {
    let mut lines = Vec::new();
    let mut inside = false;
    for line in source.lines() {
        match line {
            _ if line.starts_with(head) => inside = true,
            "}" => inside = false,
            _ if inside => lines.push(line.trim()),
            _ => {}
        }
    }
    lines
}

/// What `count` finds in the source files of `folder`, added up.
fn sum(folder: &Path, count: impl Fn(&str) -> usize) -> usize {
    files(folder, ".rs").iter().map(|path| count(&read(path))).sum()
}

/// Kernels of a file of scenarios/kernels: those written out, and those of its table.
fn scenario_kernels(source: &str) -> usize {
    let written = source.lines().filter(|line| *line == "#[kernel]").count();
    written + blocks(source, "instances! {").iter().filter(|line| line.ends_with(';')).count()
}

fn counts(root: &Path) -> Vec<Count> {
    let cases = files(&root.join("pipeline/tests/ui"), ".rs");
    let cases = cases.iter().filter(|path| !path.to_string_lossy().ends_with("_ok.rs")).count();
    let mutations = read(&root.join("xtask/src/mutate/table.rs"));
    let is_mutation = |line: &&&str| line.starts_with('"') && line.ends_with("\":");
    let mutations = blocks(&mutations, "mutations! {").iter().filter(is_mutation).count();
    let misuses = read(&root.join("docs/misuses.md"));
    let misuses = misuses.lines().filter_map(|line| line.strip_prefix("| "));
    let misuses = misuses.filter(|row| row.starts_with(|c: char| c.is_ascii_digit())).count();
    let count = |page, phrase, source| Count { page, phrase, source };
    vec![
        count("docs/status.md", "rules of the model", sim::Rule::ALL.len()),
        count(
            "docs/status.md",
            "planted bugs",
            sum(&root.join("tests/zoo"), |source| blocks(source, "family! { \"").len()),
        ),
        count(
            "docs/status.md",
            "litmus programs",
            sum(&root.join("conformance/src/litmus"), |source| source.matches("Litmus {").count()),
        ),
        count("docs/status.md", "GEMM kernels", INSTANCES.len()),
        count(
            "docs/status.md",
            "example kernels",
            files(&root.join("gpu-kernels/src/examples"), ".rs").len(),
        ),
        count(
            "docs/scenarios.md",
            "scenario kernels",
            sum(&root.join("scenarios/kernels/src"), scenario_kernels),
        ),
        count("docs/misuses.md", "misuses", misuses),
        count("docs/misuses.md", "compile-fail cases", cases),
        count("docs/misuses.md", "mutations", mutations),
        count("docs/misuses.md", "cases have no mutation", cases - mutations),
        count(
            "docs/benchmarking.md",
            "shapes of all suites",
            SUITES.iter().map(|suite| suite.shapes.len()).sum(),
        ),
    ]
}

/// The number that a word is, in digits or spelled out.
fn number(word: &str) -> Option<usize> {
    const WORDS: [&str; 13] = [
        "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
        "eleven", "twelve",
    ];
    let word = word.trim_start_matches('(').trim_matches('*').to_lowercase();
    WORDS.iter().position(|w| *w == word).or_else(|| word.replace(',', "").parse().ok())
}

/// The numbers that stand before `phrase` in a page.
fn stated(page: &str, phrase: &str) -> Vec<usize> {
    let page: Vec<&str> = page.split_whitespace().collect();
    let phrase: Vec<&str> = phrase.split(' ').collect();
    let is_phrase = |words: &[&str]| {
        let last = words.len() - 1;
        words[..last] == phrase[..last]
            && words[last].trim_end_matches(|c: char| !c.is_alphanumeric()) == phrase[last]
    };
    let windows = page.windows(phrase.len() + 1).filter(|words| is_phrase(&words[1..]));
    windows.filter_map(|words| number(words[0])).collect()
}

#[test]
fn pages_state_the_counts_of_the_source() {
    let Some(root) = repository() else { return };
    let mut pages = files(&root.join("docs"), ".md");
    pages.extend(["README.md", "isa/README.md", "sim/README.md"].map(|page| root.join(page)));
    for Count { page, phrase, source } in counts(&root) {
        for path in &pages {
            let found = stated(&read(path), phrase);
            let path = path.strip_prefix(&root).expect("under the root").display().to_string();
            assert!(path != page || !found.is_empty(), "{path} does not state: {source} {phrase}");
            for number in found {
                assert_eq!(
                    number, source,
                    "{path}: the source has {source} {phrase}, not {number}"
                );
            }
        }
    }
}

#[test]
fn the_table_of_suites_has_their_sizes() {
    let page = include_str!("../../docs/benchmarking.md");
    for suite in SUITES {
        let row = format!("| `{}` | {} |", suite.name, suite.shapes.len());
        assert!(page.contains(&row), "docs/benchmarking.md has no row {row}");
    }
}

#[test]
fn numbers_are_read_as_they_are_written() {
    let text = "The zoo has\n86 planted bugs, **56 litmus\nprograms** and Six example kernels; 1,024 planted\nbugs.";
    assert_eq!(stated(text, "planted bugs"), [86, 1024]);
    assert_eq!(stated(text, "litmus programs"), [56]);
    assert_eq!(stated(text, "example kernels"), [6]);
    assert!(stated("the planted bugs; it has two: planted bugs", "planted bugs").is_empty());
}
