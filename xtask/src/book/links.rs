//! Links from page to page, and from pages to the source.

use super::{Page, folder, is_markdown, resolved};
use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// A link of a page.
pub struct Link<'a> {
    /// Line, from 1.
    pub line: usize,
    /// What stands between the parentheses.
    pub target: &'a str,
    /// The byte at which it begins in the page.
    pub start: usize,
}

/// Links of a page that lead nowhere in the repository. Links to other places are not followed.
pub fn check(root: &Path, page: &Page) -> Vec<String> {
    let mut findings = Vec::new();
    for link in links(&page.text) {
        if is_outside(link.target) {
            continue;
        }
        let at = format!("{}:{}", page.path, link.line);
        let (path, fragment) = link.target.split_once('#').unwrap_or((link.target, ""));
        let file = match path {
            "" => Some(page.path.clone()),
            _ => resolved(folder(&page.path), path),
        };
        let Some(file) = file.filter(|file| root.join(file).exists()) else {
            findings.push(format!("{at}: {} does not exist", link.target));
            continue;
        };
        if fragment.is_empty() || !is_markdown(&file) {
            continue;
        }
        let text = fs::read_to_string(root.join(&file)).unwrap_or_default();
        if !headings(&text).iter().any(|heading| heading == fragment) {
            findings.push(format!("{at}: {file} has no heading #{fragment}"));
        }
    }
    findings
}

/// Whether a link leaves the repository, or is one that rustdoc resolves.
pub fn is_outside(target: &str) -> bool {
    target.contains("://")
        || target.starts_with("mailto:")
        || target.contains("::")
        || target.is_empty()
}

/// The links of a page, outside of code.
pub fn links(text: &str) -> Vec<Link<'_>> {
    let mut links = Vec::new();
    for (line, start, content) in prose(text) {
        let mut in_code = false;
        for (at, c) in content.char_indices() {
            in_code ^= c == '`';
            // The text of a link may be code: its bracket closes behind the code.
            if in_code || !content[at..].starts_with("](") {
                continue;
            }
            let rest = &content[at + 2..];
            if let Some(end) = rest.find(')') {
                links.push(Link { line, target: &rest[..end], start: start + at + 2 });
            }
        }
    }
    links
}

/// The anchors of a page's headings, as GitHub and mdBook make them.
pub fn headings(text: &str) -> Vec<String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut anchors = Vec::new();
    for (_, _, line) in prose(text) {
        let hashes = line.chars().take_while(|c| *c == '#').count();
        let Some(title) = line[hashes..].strip_prefix(' ').filter(|_| (1..=6).contains(&hashes))
        else {
            continue;
        };
        let kept = title.trim().chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
        let anchor: String =
            kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect();
        let count = seen.entry(anchor.clone()).or_default();
        anchors.push(if *count == 0 { anchor } else { format!("{anchor}-{count}") });
        *count += 1;
    }
    anchors
}

/// The lines outside of blocks of code: number from 1, first byte, text.
fn prose(text: &str) -> Vec<(usize, usize, &str)> {
    let mut fence = 0;
    let mut start = 0;
    let mut lines = Vec::new();
    for (index, line) in text.split('\n').enumerate() {
        let ticks = line.trim_start().chars().take_while(|c| *c == '`').count();
        if ticks >= 3 && (fence == 0 || ticks == fence) {
            fence = if fence == 0 { ticks } else { 0 };
        } else if fence == 0 {
            lines.push((index + 1, start, line));
        }
        start += line.len() + 1;
    }
    lines
}
