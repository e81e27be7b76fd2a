//! The code of docs/interop.md is code of the examples, or of the documentation of the API.

const PAGE: &str = include_str!("../../../docs/interop.md");
const SOURCES: [&str; 3] = [
    include_str!("../src/main.rs"),
    include_str!("../../interop-cust/src/lib.rs"),
    include_str!("../../../host/src/view.rs"),
];

/// The lines of a source, without indentation and comment signs.
fn lines(text: &str) -> Vec<&str> {
    text.lines().map(|line| line.trim().trim_start_matches("/// ")).collect()
}

#[test]
fn the_page_quotes_the_examples() {
    let blocks: Vec<&str> =
        PAGE.split("```rust\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(blocks.len(), 3);
    for block in blocks {
        for line in lines(block) {
            let found = SOURCES.iter().any(|source| lines(source).contains(&line));
            assert!(found, "docs/interop.md has code that no example has: {line}");
        }
    }
}
