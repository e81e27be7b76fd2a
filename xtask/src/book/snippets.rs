//! Blocks of code that equal their source.
//!
//! ````text
//! <!-- from examples/first/build.rs -->              a file, or
//! <!-- from examples/first/src/main.rs#test -->      a part of it, between `// example: test` and `// end`, or
//! <!-- from sim/README.md#Rules -->                  a section of a page, up to `<!-- end -->` where it is quoted
//! ```rust
//! …
//! ```
//! ````
//! `; A = B` behind the name replaces A by B, as in a path that differs for a reader. `<!-- in FILE -->` says that the lines
//! stand somewhere in the file, where a marker would be in the way. A block of code that is not ours has
//! `<!-- theirs: PROJECT -->` above it.

use super::{Page, is_markdown};
use std::fs;
use std::path::Path;

/// Languages of blocks that need a source.
const HELD: [&str; 2] = ["rust", "toml"];
/// Pages whose blocks are held to their sources: how-to pages and the guide of contributors.
fn held(page: &Page) -> bool {
    page.path.starts_with("docs/") || page.path == "CONTRIBUTING.md"
}

/// A block of a page. Lines are counted from 0.
struct Block<'a> {
    /// The line of the comment, or of the fence if there is none.
    line: usize,
    /// Language of the fence; empty for quoted Markdown.
    language: &'a str,
    /// What the comment says; `None` without one.
    comment: Option<&'a str>,
    /// The lines inside.
    inside: std::ops::Range<usize>,
}

/// What differs from its source, or has none.
pub fn check(root: &Path, page: &Page) -> Vec<String> {
    let lines: Vec<&str> = page.text.lines().collect();
    let mut findings = Vec::new();
    for block in blocks(&lines) {
        let at = format!("{}:{}", page.path, block.line + 1);
        match block.comment.map(|comment| (comment.strip_prefix("from "), comment)) {
            Some((Some(source), _)) => match region(root, source) {
                Ok(text) if text == lines[block.inside].join("\n") => {}
                Ok(_) => findings.push(format!(
                    "{at}: the block differs from {source}: cargo xtask book --write copies it"
                )),
                Err(what) => findings.push(format!("{at}: {what}")),
            },
            Some((None, comment)) => {
                let Some(path) = comment.strip_prefix("in ") else { continue };
                match fs::read_to_string(root.join(path)) {
                    Ok(text) if contains(&text, &lines[block.inside]) => {}
                    Ok(_) => findings.push(format!("{at}: {path} has no such lines")),
                    Err(e) => findings.push(format!("{at}: {path}: {e}")),
                }
            }
            _ if held(page) && HELD.contains(&block.language) => findings.push(format!(
                "{at}: a block of {} without its source: write `<!-- from FILE#NAME -->` above it, or `<!-- theirs: \
                 PROJECT -->`",
                block.language
            )),
            _ => {}
        }
    }
    findings
}

/// The page with the blocks as in their sources. Blocks without a readable source stay as they are.
pub fn written(root: &Path, page: &Page) -> String {
    let lines: Vec<&str> = page.text.lines().collect();
    let mut out = String::new();
    let mut next = 0;
    for block in blocks(&lines) {
        let source = block.comment.and_then(|comment| comment.strip_prefix("from "));
        let Some(Ok(text)) = source.map(|source| region(root, source)) else { continue };
        for line in lines[next..block.inside.start].iter().copied().chain([text.as_str()]) {
            out.push_str(line);
            out.push('\n');
        }
        next = block.inside.end;
    }
    for line in &lines[next..] {
        out.push_str(line);
        out.push('\n');
    }
    out
}

fn blocks<'a>(lines: &[&'a str]) -> Vec<Block<'a>> {
    const KINDS: [&str; 3] = ["from ", "in ", "theirs: "];
    let comment_of =
        |line: &'a str| line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"));
    let mut blocks = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let comment =
            comment_of(lines[at]).filter(|c| KINDS.iter().any(|kind| c.starts_with(kind)));
        let start = at + usize::from(comment.is_some());
        let fence = lines.get(start).map_or("", |line| line.trim_start());
        let ticks = fence.chars().take_while(|c| *c == '`').count();
        if ticks < 3 && comment.is_none() {
            at += 1;
            continue;
        }
        let is_end = |line: &&str| match ticks {
            0..3 => **line == *"<!-- end -->",
            _ => line.trim() == "`".repeat(ticks),
        };
        let first = if ticks < 3 { start } else { start + 1 };
        let length =
            lines[first.min(lines.len())..].iter().take_while(|line| !is_end(line)).count();
        let language = if ticks < 3 { "" } else { fence[ticks..].trim() };
        blocks.push(Block { line: at, language, comment, inside: first..first + length });
        at = first + length + 1;
    }
    blocks
}

/// The text that `source` names: a file, or a region of it, with replacements.
fn region(root: &Path, source: &str) -> Result<String, String> {
    let mut parts = source.split("; ");
    let place = parts.next().unwrap_or_default();
    let (path, name) =
        place.split_once('#').map_or((place, None), |(path, name)| (path, Some(name)));
    let text = fs::read_to_string(root.join(path)).map_err(|e| format!("{path}: {e}"))?;
    let region = match name {
        Some(name) if is_markdown(path) => {
            section(&text, name).ok_or(format!("{path} has no section {name}"))?
        }
        Some(name) => marked(&text, name)
            .ok_or(format!("{path} has no part `example: {name}`, or no `end` of it"))?,
        None => text.lines().filter(|line| marker(line).is_none()).collect::<Vec<_>>().join("\n"),
    };
    let mut region = region.trim_matches('\n').to_owned();
    for part in parts {
        let (from, to) = part.split_once(" = ").ok_or(format!("`{part}` is not `A = B`"))?;
        if !region.contains(from) {
            return Err(format!("{place} has no `{from}` to replace"));
        }
        region = region.replace(from, to);
    }
    Ok(region)
}

/// Whether the lines stand in `text` one behind the other, at any indentation, or in the example of a doc comment.
fn contains(text: &str, block: &[&str]) -> bool {
    let block: Vec<&str> = block.iter().map(|line| line.trim()).collect();
    let code: Vec<&str> = text.lines().map(str::trim).collect();
    let comments =
        code.iter().map(|line| line.trim_start_matches("/// ").trim_start_matches("//! "));
    let examples: Vec<&str> = comments.map(str::trim).collect();
    !block.is_empty()
        && [code, examples]
            .iter()
            .any(|lines| lines.windows(block.len()).any(|window| window == block))
}

enum Marker<'a> {
    Start(&'a str),
    End,
}

/// A line that begins or ends a region.
fn marker(line: &str) -> Option<Marker<'_>> {
    let line = line.trim_start();
    let comment = line.strip_prefix("// ").or_else(|| line.strip_prefix("# "))?;
    match comment.strip_prefix("example: ") {
        Some(name) => Some(Marker::Start(name)),
        None => (comment == "end").then_some(Marker::End),
    }
}

/// The lines between `example: name` and its `end`, without the indentation that they share.
fn marked(text: &str, name: &str) -> Option<String> {
    let mut lines = text.lines();
    lines.find(|line| matches!(marker(line), Some(Marker::Start(found)) if found == name))?;
    let mut depth = 1;
    let mut inside = Vec::new();
    for line in lines {
        match marker(line) {
            Some(Marker::Start(_)) => depth += 1,
            Some(Marker::End) => depth -= 1,
            None => inside.push(line),
        }
        if depth == 0 {
            let filled = inside.iter().filter(|line| !line.trim().is_empty());
            let indent = filled.map(|line| line.len() - line.trim_start().len()).min();
            let cut = |line: &&str| line.get(indent.unwrap_or(0)..).unwrap_or_default().to_owned();
            return Some(inside.iter().map(cut).collect::<Vec<_>>().join("\n"));
        }
    }
    None
}

/// What stands under the heading `name`, up to the next heading of its level or above.
fn section(text: &str, name: &str) -> Option<String> {
    let level = |line: &str| {
        let hashes = line.chars().take_while(|c| *c == '#').count();
        (hashes > 0 && line[hashes..].starts_with(' ')).then_some(hashes)
    };
    let mut lines = text.lines();
    let heading =
        lines.find(|line| level(line).is_some_and(|hashes| line[hashes..].trim() == name))?;
    let depth = level(heading)?;
    let inside = lines.take_while(|line| level(line).is_none_or(|found| found > depth));
    Some(inside.collect::<Vec<_>>().join("\n"))
}
