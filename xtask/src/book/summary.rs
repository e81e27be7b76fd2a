//! The table of contents, docs/SUMMARY.md: every page of docs/ is a chapter, once.

use super::links::links;
use super::{Page, resolved};

const SUMMARY: &str = "docs/SUMMARY.md";

/// The chapters: paths from the repository's root. A chapter without a path is one that has no page yet.
pub fn chapters(summary: &str) -> Vec<String> {
    let targets = links(summary).into_iter().filter(|link| !link.target.is_empty());
    targets.filter_map(|link| resolved("docs", link.target)).collect()
}

/// Pages of docs/ that are no chapter, or one twice.
pub fn check(pages: &[Page]) -> Vec<String> {
    let summary = pages.iter().find(|page| page.path == SUMMARY);
    let chapters = chapters(summary.map_or("", |page| &page.text));
    let mut findings = Vec::new();
    for page in pages.iter().filter(|page| page.path.starts_with("docs/") && page.path != SUMMARY) {
        let times = chapters.iter().filter(|chapter| **chapter == page.path).count();
        if times != 1 {
            let name = page.path.trim_start_matches("docs/");
            findings.push(format!(
                "{SUMMARY}: {name} is there {times} times: list it once, `- [Title]({name})`"
            ));
        }
    }
    findings
}
