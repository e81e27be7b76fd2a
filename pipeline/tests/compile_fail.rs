//! What the types refuse, and in which words: one case for each way to break a rule of
//! docs/misuses.md. Beside each row's cases lies the correct program (`NN_…_ok.rs`), which
//! tests/integration/ui_ok.rs runs.

use std::path::PathBuf;

/// The cases and the correct programs of tests/ui, by name without extension, each list sorted.
fn cases_and_programs() -> (Vec<String>, Vec<String>) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/ui");
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .expect("the folder is beside this file")
        .map(|entry| PathBuf::from(entry.expect("readable").file_name()))
        .filter(|file| file.extension().is_some_and(|end| end == "rs"))
        .map(|file| file.file_stem().expect("a name").to_str().expect("UTF-8").to_owned())
        .collect();
    names.sort();
    names.into_iter().partition(|name| !name.ends_with("_ok"))
}

/// The compiler only checks these: whatever they refuse, `cargo check` refuses.
#[test]
fn refusals_are_sentences() {
    let tests = trybuild::TestCases::new();
    for case in cases_and_programs().0 {
        tests.compile_fail(format!("tests/ui/{case}.rs"));
    }
}

#[test]
fn each_row_has_its_correct_program() {
    let (cases, programs) = cases_and_programs();
    for case in cases {
        let row = &case[..3];
        assert!(programs.iter().any(|name| name.starts_with(row)), "{case}: no {row}…_ok.rs");
    }
}

#[test]
fn the_catalogue_names_every_case_and_program() {
    let catalogue = include_str!("../../docs/misuses.md");
    let (cases, programs) = cases_and_programs();
    for name in cases.iter().chain(&programs) {
        let file = format!("`{name}`");
        assert!(catalogue.contains(&file), "docs/misuses.md does not name {file}");
    }
}
