//! What the model found, on one page.

use super::rule::Rule;
use crate::types::loc::Loc;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use std::fmt;

/// The end of the message about instructions that change nothing.
pub(crate) const NOTHING_CHANGES: &str = "nothing changes";

/// A finding: one rule, broken at one place, with the state of the cluster around it.
#[derive(Clone)]
pub struct Report {
    /// The rule.
    pub rule: Rule,
    /// Name of the kernel, from [`crate::Grid::name`].
    pub kernel: String,
    /// What is wrong, in one line with its numbers.
    pub message: String,
    /// Seed that reproduces the run, unless its choices were not drawn.
    pub seed: u64,
    /// What [`crate::Config::replay`] takes to repeat the run to the letter.
    pub schedule: String,
    /// A hash of every step of the cluster: the same when the run is repeated.
    pub trace: u64,
    /// Linear index of the cluster in the grid.
    pub cluster: u32,
    /// The thread that broke the rule; none for a deadlock, where all stand in `threads`.
    pub culprit: Option<ThreadPlace>,
    /// The line of the kernel that broke it.
    pub at: Option<SourceLine>,
    /// The other side: the instruction that this one collides with.
    pub other: Option<(String, SourceLine)>,
    /// Threads that have not finished, grouped by what they do.
    pub threads: Vec<ThreadGroup>,
    /// The barriers that matter here.
    pub barriers: Vec<BarrierState>,
    /// What explains the finding: the last waits of its threads, counts that are wrong, who has returned,
    /// and what would be right.
    pub notes: Vec<String>,
    /// Where threads wait for each other: who waits for what, from whom that is due, and what those wait
    /// for in turn, until it comes round or ends.
    pub waits: Vec<String>,
    /// The last steps that matter, oldest first.
    pub steps: Vec<StepLine>,
}

/// An instruction that was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct StepLine {
    /// Who executed it, or issued the copy that landed.
    pub who: ThreadPlace,
    /// The instruction; `(lands)` for a copy.
    pub what: &'static str,
    /// The line of the kernel.
    pub at: Option<SourceLine>,
}

/// A line of source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct SourceLine {
    /// File as rustc was given it.
    pub file: &'static str,
    /// Line, from 1.
    pub line: u32,
}

impl From<Loc> for SourceLine {
    fn from(l: Loc) -> Self {
        Self { file: l.file(), line: l.line() }
    }
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// Where a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ThreadPlace {
    /// CTA's rank in its cluster.
    pub cta: u32,
    /// Warp in the CTA.
    pub warp: u32,
    /// Lane in the warp.
    pub lane: u32,
    /// Role that the kernel gave it.
    pub role: Option<&'static str>,
}

impl fmt::Display for ThreadPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CTA {}, warp {}, lane {}", self.cta, self.warp, self.lane)?;
        self.role.map_or(Ok(()), |r| write!(f, " ({r})"))
    }
}

/// Threads that do the same.
#[derive(Clone, Debug, Serialize)]
pub struct ThreadGroup {
    /// CTA's rank in its cluster.
    pub cta: u32,
    /// Warps that they belong to, ascending.
    pub warps: Vec<u32>,
    /// How many threads.
    pub count: u32,
    /// Their role.
    pub role: Option<&'static str>,
    /// What they wait for, or that they are ready to run.
    pub doing: String,
    /// The line of their last instruction.
    pub at: Option<SourceLine>,
}

/// State of a barrier.
#[derive(Clone, Debug, Serialize)]
pub struct BarrierState {
    /// CTA's rank in its cluster.
    pub cta: u32,
    /// Name (from `label_barrier`, with the stage) or address.
    pub name: String,
    /// Stage, if the barrier was labelled.
    pub stage: Option<u32>,
    /// The phase in progress, counted from 0.
    pub phase: u32,
    /// Arrivals that this phase lacks.
    pub pending: u32,
    /// Arrivals that each phase takes.
    pub expected: u32,
    /// Bytes expected and not landed (negative: landed and not expected).
    pub tx: i64,
    /// Where the barrier was initialised.
    pub init: Option<SourceLine>,
    /// Who has arrived so far, over all phases.
    pub arrivals: Vec<String>,
}

/// The fields keep their names; `rule`, `title` and `chapter` are texts.
impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        /// The other side of a finding.
        #[derive(Serialize)]
        struct Other<'a> {
            what: &'a str,
            at: SourceLine,
        }
        let other = self.other.as_ref().map(|(what, at)| Other { what, at: *at });
        let mut s = serializer.serialize_struct("Report", 17)?;
        s.serialize_field("rule", self.rule.code())?;
        s.serialize_field("title", self.rule.title())?;
        s.serialize_field("chapter", self.rule.chapter())?;
        s.serialize_field("message", &self.message)?;
        s.serialize_field("kernel", &self.kernel)?;
        s.serialize_field("cluster", &self.cluster)?;
        s.serialize_field("seed", &self.seed)?;
        s.serialize_field("schedule", &self.schedule)?;
        // As text: not every reader of JSON has 64-bit integers.
        s.serialize_field("trace", &format!("{:016x}", self.trace))?;
        s.serialize_field("culprit", &self.culprit)?;
        s.serialize_field("at", &self.at)?;
        s.serialize_field("other", &other)?;
        s.serialize_field("threads", &self.threads)?;
        s.serialize_field("barriers", &self.barriers)?;
        s.serialize_field("waits", &self.waits)?;
        s.serialize_field("notes", &self.notes)?;
        s.serialize_field("steps", &self.steps)?;
        s.end()
    }
}

impl Report {
    /// Whether it is about instructions that change nothing and that nothing ends.
    pub(crate) fn is_endless(&self) -> bool {
        self.rule == Rule::StepLimit && self.message.ends_with(NOTHING_CHANGES)
    }

    /// The report as one JSON object, with the names of the fields.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_readme_lists_every_rule() {
        let readme = include_str!("../../README.md");
        for rule in Rule::ALL {
            let row = format!("\n| {} | {} | ", rule.code(), rule.title());
            assert!(readme.contains(&row), "no row {row}");
        }
    }

    #[test]
    fn every_chapter_is_there() {
        let docs = [
            ("docs/semantics.md", include_str!("../../../docs/semantics.md")),
            ("docs/misuses.md", include_str!("../../../docs/misuses.md")),
            ("docs/blackwell.md", include_str!("../../../docs/blackwell.md")),
        ];
        for rule in Rule::ALL {
            let (file, anchor) = rule.chapter().split_once('#').unwrap();
            let text = docs.iter().find(|d| d.0 == file).unwrap().1;
            let heads = text.lines().filter_map(|l| l.strip_prefix("## "));
            let mut anchors = heads.map(|h| h.to_lowercase().replace(' ', "-"));
            assert!(anchors.any(|a| a == anchor), "{}", rule.chapter());
        }
    }

    #[test]
    fn codes_are_unique_and_in_order() {
        let codes: Vec<_> = Rule::ALL.iter().map(|r| r.code()).collect();
        assert!(codes.is_sorted());
        assert_eq!(codes.iter().collect::<HashSet<_>>().len(), codes.len());
    }
}
