//! A rule broken, before it becomes a report.

use super::rule::Rule;
use crate::types::loc::Loc;

/// What an instruction found.
#[derive(Debug)]
pub(crate) struct Fault {
    pub rule: Rule,
    pub message: String,
    /// The other side of a collision.
    pub other: Option<(String, Loc)>,
    /// The barrier that it is about.
    pub bar: Option<usize>,
    /// What else a report should say.
    pub notes: Vec<String>,
}

impl Fault {
    pub fn new(rule: Rule, message: impl Into<String>) -> Self {
        Self { rule, message: message.into(), other: None, bar: None, notes: Vec::new() }
    }
    pub fn bar(mut self, bar: usize) -> Self {
        self.bar = Some(bar);
        self
    }
    pub fn noting(mut self, notes: Vec<String>) -> Self {
        self.notes = notes;
        self
    }
    pub fn against(mut self, what: impl Into<String>, loc: Loc) -> Self {
        self.other = Some((what.into(), loc));
        self
    }
}

impl From<(Rule, String)> for Fault {
    fn from((rule, message): (Rule, String)) -> Self {
        Self::new(rule, message)
    }
}
