//! One entry: found with its rule at its line, and silent without the bug.

use crate::world::run;
use crate::{Bug, Family};
use sim::{Report, Rule};

/// Seeds under which each bug must be found.
const FOUND_UNDER: u64 = 100;

/// Entries that take long, of which fewer seeds are tried: those that poll until the loop counts as endless.
const SLOW: &[(&str, u64)] = &[("a_flag_that_nobody_sets", 3)];

/// A `//~` comment: what the model must say about the line that it ends.
pub struct Mark {
    pub line: u32,
    pub code: &'static str,
}

/// What the model said.
pub struct Finding {
    pub rule: Rule,
    pub line: u32,
}

/// The marks of an entry's function.
pub fn marks(family: &Family, entry: &str) -> Vec<Mark> {
    let start = format!("fn {entry}(");
    let lines = (1..).zip(family.source.lines()).skip_while(|(_, l)| !l.contains(&start));
    lines
        .take_while(|(_, l)| *l != "}")
        .filter_map(|(line, l)| Some((line, l.split_once("//~ ")?.1)))
        .flat_map(|(line, codes)| {
            codes.split_whitespace().take_while(|c| c.starts_with("WP")).map(move |c| (line, c))
        })
        .map(|(line, code)| Mark { line, code: code.trim_end_matches([',', ':']) })
        .collect()
}

/// Whether a report points at a line of a file, and not only in passing: the place, its other side,
/// or, where nobody can go on, the line at which someone stands.
fn names(report: &Report, file: &str, line: u32) -> bool {
    let here = |at: sim::SourceLine| at.line == line && at.file.ends_with(file);
    match report.at {
        Some(at) => here(at) || report.other.as_ref().is_some_and(|(_, at)| here(*at)),
        // A launch that cannot be has no line in the kernel, and a panic says its own.
        None if report.rule == Rule::Launch => true,
        None if report.rule == Rule::Panic => report.message.contains(&format!("{file}:{line}:")),
        None => report.threads.iter().any(|t| t.at.is_some_and(here)),
    }
}

/// What the model says of the bug under the first seeds, which must be what one of the marks says.
pub fn find(family: &Family, name: &str, bug: &Bug, seeds: u64) -> Vec<Finding> {
    let marks = marks(family, name);
    assert!(!marks.is_empty(), "{name} has no `//~ WPnnn` in {}", family.name);
    let file = format!("zoo/{}", family.name);
    let found = |seed| {
        let Err(report) = run(bug, true, seed) else { panic!("{name}: silent, seed {seed}") };
        let named =
            marks.iter().find(|m| m.code == report.rule.code() && names(&report, &file, m.line));
        let Some(mark) = named else {
            let want: Vec<_> = marks.iter().map(|m| format!("{} at {}", m.code, m.line)).collect();
            panic!("{name}: want {} of {file}; seed {seed} gave\n{report}", want.join(" or "));
        };
        Finding { rule: report.rule, line: mark.line }
    };
    (0..seeds).map(found).collect()
}

/// The test of an entry: found under every seed, and silent without the bug.
pub fn entry(family: &Family, name: &str) {
    let (_, bug) = family.bugs.iter().find(|(n, _)| *n == name).expect("the family's own");
    let bug = bug();
    let seeds = std::env::var("WARPIPE_SEEDS").ok().map(|n| n.parse().expect("a number"));
    let slow = SLOW.iter().find(|slow| slow.0 == name);
    let under = match slow {
        Some(slow) => seeds.map_or(slow.1, |n: u64| n.min(FOUND_UNDER)),
        None => seeds.unwrap_or(FOUND_UNDER),
    };
    find(family, name, &bug, under);
    for seed in 0..seeds.unwrap_or(20) {
        if let Err(report) = run(&bug, false, seed) {
            panic!("{name} without its bug, seed {seed}:\n{report}");
        }
    }
}
