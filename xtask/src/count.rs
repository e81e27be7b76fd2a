//! Counts of the source tree, for docs/architecture.md: read from the text, without a compiler.

use crate::imports::{circles, code, import_graph};
use std::fmt::Write;
use std::path::Path;
use std::{fs, io};

/// The folders whose import cycles are counted.
const CRATES: [&str; 8] =
    ["isa", "pipeline", "gpu-kernels", "host", "bench", "macros", "kernel-build", "sim"];

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path}: {source}")]
    File { path: String, source: io::Error },
}

/// Prints the table for the repository, or for another checkout of it.
pub fn run(tree: &Path) -> Result<(), Error> {
    print!("{}", table(tree)?);
    Ok(())
}

fn table(tree: &Path) -> Result<String, Error> {
    let sources = |folder: &str| {
        let mut texts: Vec<Source> = Vec::new();
        let collected = collect(&tree.join(folder), &mut texts);
        collected.map_err(|source| Error::File { path: folder.to_owned(), source })?;
        texts.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(texts)
    };
    let kernels: Vec<Source> = sources("gpu-kernels/src")?;
    let gemm = kernels.iter().filter(|file| file.path.contains("/src/gemm"));
    let pipeline: Vec<Source> = sources("pipeline/src")?;
    let sum = |files: &[Source], count: fn(&str) -> usize| -> usize {
        files.iter().map(|file| count(&file.code)).sum()
    };
    let signatures: Vec<String> = kernels
        .iter()
        .filter_map(|file| generic_parameters(&file.code, "gemm"))
        .map(|count| count.to_string())
        .collect();
    let mut out = String::from("| | |\n|---|---|\n");
    let mut row = |what: &str, count: &dyn std::fmt::Display| {
        writeln!(out, "| {what} | {count} |").expect("a string takes all");
    };
    row("lines of code in gpu-kernels/src", &sum(&kernels, lines));
    row("of these in gemm.rs and gemm/", &gemm.map(|file| lines(&file.code)).sum::<usize>());
    row("generic parameters of `fn gemm`", &signatures.join(", "));
    row("`unsafe` in gpu-kernels/src", &sum(&kernels, |code| words(code, "unsafe")));
    row("public types of pipeline", &sum(&pipeline, |code| public(code, &TYPES)));
    row("public traits of pipeline", &sum(&pipeline, |code| public(code, &["trait"])));
    for folder in CRATES {
        let source = tree.join(folder).join("src");
        if !source.is_dir() {
            row(&format!("largest import cycle of {folder}, files"), &"no such crate");
            continue;
        }
        let graph = import_graph(&source)
            .map_err(|source| Error::File { path: folder.to_owned(), source })?;
        let largest = circles(&graph).first().map_or(1, Vec::len);
        row(&format!("largest import cycle of {folder}, files"), &largest);
    }
    Ok(out)
}

/// Keywords of the items that are types.
const TYPES: [&str; 4] = ["struct", "enum", "union", "type"];

/// A source file without its comments.
struct Source {
    path: String,
    code: String,
}

fn collect(folder: &Path, out: &mut Vec<Source>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, out)?;
        } else if path.extension().is_some_and(|end| end == "rs") {
            let code = code(&fs::read_to_string(&path)?);
            out.push(Source { path: path.to_string_lossy().into_owned(), code });
        }
    }
    Ok(())
}

/// Lines that are not blank.
fn lines(code: &str) -> usize {
    code.lines().filter(|line| !line.trim().is_empty()).count()
}

/// The words of a text: names, keywords and numbers.
fn split(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty())
}

/// How often `word` stands in the code.
fn words(code: &str, word: &str) -> usize {
    split(code).filter(|other| *other == word).count()
}

/// Lines that declare a public item with one of these keywords, outside of inline modules and
/// functions: those whose `pub` begins the line. Items that a macro makes are not seen.
fn public(code: &str, keywords: &[&str]) -> usize {
    let declares = |line: &&str| {
        let item = line.strip_prefix("pub ").map(|rest| rest.trim_start_matches("unsafe "));
        item.is_some_and(|rest| keywords.iter().any(|word| rest.starts_with(&format!("{word} "))))
    };
    code.lines().filter(declares).count()
}

/// Generic parameters of the function `name`, lifetimes included; none if there is no such function.
fn generic_parameters(code: &str, name: &str) -> Option<usize> {
    let head = format!("fn {name}");
    let after = code.match_indices(&head).find_map(|(at, _)| {
        let rest = &code[at + head.len()..];
        rest.starts_with(['<', '(']).then_some(rest)
    })?;
    let Some(list) = after.strip_prefix('<') else { return Some(0) };
    let (mut depth, mut count, mut empty) = (0, 0, true);
    let mut before = ' ';
    for c in list.chars() {
        match c {
            '<' | '(' | '[' | '{' => depth += 1,
            '>' if before == '-' => {}
            '>' if depth == 0 => break,
            '>' | ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                count += 1;
                empty = true;
                before = c;
                continue;
            }
            _ => {}
        }
        empty &= c.is_whitespace();
        before = c;
    }
    Some(count + usize::from(!empty))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_blank_lines_are_no_code() {
        let text = "//! A module.\n\nfn f() { // why\n    g(\"// text\");\n}\n/* a\n b */\n";
        assert_eq!(lines(&code(text)), 3);
    }

    #[test]
    fn words_are_whole() {
        let text = "unsafe fn f() { unsafe { g() } } // unsafe\nconst unsafe_: &str = \"unsafe\";";
        assert_eq!(words(&code(text), "unsafe"), 2);
    }

    #[test]
    fn public_items_begin_a_line() {
        let text = "pub struct A;\npub(crate) struct B;\npub unsafe trait C {}\npub trait D {}\n\
                    mod sealed {\n    pub trait Sealed {}\n}\npub type E = A;\npub fn f() {}\n";
        assert_eq!(public(text, &TYPES), 2);
        assert_eq!(public(text, &["trait"]), 2);
    }

    #[test]
    fn generic_parameters_are_counted_in_the_signature() {
        let count = |text: &str| generic_parameters(text, "gemm");
        assert_eq!(count("fn gemm_all<T>() {}"), None);
        assert_eq!(count("pub fn gemm(a: u32) {}"), Some(0));
        assert_eq!(count("fn gemm<G, const STAGES: usize>(cta: Cta<G>)"), Some(2));
        assert_eq!(
            count(
                "fn gemm<\n    'a,\n    T: Fn(u32, u32) -> Vec<(A, B)>,\n    const N: usize,\n>("
            ),
            Some(3)
        );
    }

    #[test]
    fn of_this_repository() {
        let table = table(&crate::bundle::root()).unwrap();
        assert_eq!(table.lines().count(), 2 + 6 + CRATES.len(), "{table}");
        assert!(table.contains("| generic parameters of `fn gemm` | 3 |"), "{table}");
    }
}
