//! The repository's own documentation, and that the checks notice what they are for.

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A repository with a few files, removed at the end.
struct Tree(PathBuf);

impl Tree {
    fn new(files: &[(&str, &str)]) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("xtask-book-{}-{number}", std::process::id()));
        for other in ["CHANGELOG.md", "CONTRIBUTING.md", "README.md", "sim/README.md"] {
            save(&root.join(other), "").expect("a file");
        }
        for (path, text) in files {
            save(&root.join(path), text).expect("a file");
        }
        Self(root)
    }

    /// The findings, one per line; `""` if there is none.
    fn findings(&self) -> String {
        run(&self.0, false).map_or_else(|e| e.to_string(), |()| String::new())
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const SUMMARY: (&str, &str) = ("docs/SUMMARY.md", "- [A](a.md)\n- [Later]()\n");
const SOURCE: (&str, &str) =
    ("src/x.rs", "fn f() {\n    // example: part\n    a();\n\n    if b {}\n    // end\n}\n");

#[test]
fn the_repositorys_pages_hold() {
    if let Err(e) = run(&crate::bundle::root(), false) {
        panic!("{e}");
    }
}

#[test]
fn a_block_equals_its_part_without_the_indentation() {
    let page = "<!-- from src/x.rs#part -->\n```rust\na();\n\nif b {}\n```\n";
    let tree = Tree::new(&[SUMMARY, SOURCE, ("docs/a.md", page)]);
    assert_eq!(tree.findings(), "");
}

#[test]
fn a_block_that_differs_is_found_and_written() {
    let page = "One.\n\n<!-- from src/x.rs#part -->\n```rust\nc();\n```\nTwo.\n";
    let tree = Tree::new(&[SUMMARY, SOURCE, ("docs/a.md", page)]);
    let findings = tree.findings();
    assert!(
        findings.starts_with("docs/a.md:3: the block differs from src/x.rs#part"),
        "{findings}"
    );
    run(&tree.0, true).expect("written");
    let written = load(&tree.0.join("docs/a.md")).expect("the page");
    assert_eq!(written, page.replace("c();", "a();\n\nif b {}"));
}

#[test]
fn a_source_that_is_not_there_is_found() {
    for (source, what) in [
        ("src/y.rs", "src/y.rs: No such file"),
        ("src/x.rs#whole", "src/x.rs has no part `example: whole`"),
        ("src/x.rs; q = r", "src/x.rs has no `q` to replace"),
    ] {
        let page = format!("<!-- from {source} -->\n```rust\n```\n");
        let tree = Tree::new(&[SUMMARY, SOURCE, ("docs/a.md", &page)]);
        let findings = tree.findings();
        assert!(findings.starts_with(&format!("docs/a.md:1: {what}")), "{findings}");
    }
}

#[test]
fn a_block_needs_a_source() {
    let page = "```text\nx\n```\n<!-- theirs: cust -->\n```rust\nx\n```\n\n```rust\nx\n```\n";
    let tree = Tree::new(&[SUMMARY, ("docs/a.md", page)]);
    let findings = tree.findings();
    assert!(findings.starts_with("docs/a.md:9: a block of rust without its source"), "{findings}");
    assert_eq!(findings.lines().count(), 1);
}

#[test]
fn a_quotation_stands_in_its_file() {
    let page =
        "<!-- in src/x.rs -->\n```rust\na();\n```\n<!-- in src/x.rs -->\n```rust\nb();\n```\n";
    let tree = Tree::new(&[SUMMARY, SOURCE, ("docs/a.md", page)]);
    assert_eq!(tree.findings(), "docs/a.md:5: src/x.rs has no such lines");
}

#[test]
fn files_sections_and_replacements() {
    let manifest = ("Cargo.toml", "# example: d\nx = { path = \"../..\" }\n# end\n");
    let other = ("docs/b.md", "# B\n## Rules\n| a |\n### More\nb\n## Next\nc\n");
    let page = "<!-- from Cargo.toml#d; ../.. = ../warpipe -->\n```toml\nx = { path = \"../warpipe\" }\n```\n\
                <!-- from docs/b.md#Rules -->\n| a |\n### More\nb\n<!-- end -->\n\
                <!-- from src/x.rs -->\n```rust\nfn f() {\n    a();\n\n    if b {}\n}\n```\n";
    let summary = ("docs/SUMMARY.md", "- [A](a.md)\n- [B](b.md)\n");
    let tree = Tree::new(&[summary, SOURCE, manifest, other, ("docs/a.md", page)]);
    assert_eq!(tree.findings(), "");
}

#[test]
fn links_lead_to_files_and_headings() {
    let page = "# A *b*: `c`?\n[1](#a-b-c) [2](../src/x.rs) [`3`](a.md#a-b-c) `[4](no.md)` [5](https://x.y)\n\
                ```text\n[6](no.md)\n```\n[7](no.md) [8](#nothing) [9](../../out.md)\n";
    let tree = Tree::new(&[SUMMARY, SOURCE, ("docs/a.md", page)]);
    assert_eq!(
        tree.findings(),
        "docs/a.md:6: no.md does not exist\ndocs/a.md:6: docs/a.md has no heading #nothing\n\
         docs/a.md:6: ../../out.md does not exist"
    );
}

#[test]
fn every_page_is_a_chapter_once() {
    let tree = Tree::new(&[SUMMARY, ("docs/a.md", ""), ("docs/b.md", "")]);
    assert_eq!(
        tree.findings(),
        "docs/SUMMARY.md: b.md is there 0 times: list it once, `- [Title](b.md)`"
    );
}
