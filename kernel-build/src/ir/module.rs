//! A module's text with its tokens, and edits of it.

use super::token::{Kind, Token};
use crate::Error;

/// An edit that replaces the bytes `at..end` of the module by `text`.
#[derive(Debug)]
pub(super) struct Edit {
    pub at: usize,
    pub end: usize,
    pub text: String,
}

impl Edit {
    pub fn insert(at: usize, text: impl Into<String>) -> Self {
        Self { at, end: at, text: text.into() }
    }
}

/// A module being edited.
pub(super) struct Module<'a> {
    pub source: &'a str,
    pub tokens: &'a [Token],
}

impl Module<'_> {
    pub fn text(&self, i: usize) -> &str {
        self.tokens.get(i).map_or("", |t| t.text(self.source))
    }
    pub fn is(&self, i: usize, punct: u8) -> bool {
        self.tokens.get(i).is_some_and(|t| t.is(punct))
    }
    pub fn kind(&self, i: usize) -> Option<Kind> {
        self.tokens.get(i).map(|t| t.kind)
    }
    /// Index of the newline that ends the line of token `i`, or one past the last token.
    pub fn line_end(&self, i: usize) -> usize {
        self.tokens[i..]
            .iter()
            .position(|t| t.kind == Kind::Newline)
            .map_or(self.tokens.len(), |n| i + n)
    }
    pub fn error(&self, i: usize, what: impl Into<String>) -> Error {
        let at = self.tokens.get(i).map_or(self.source.len(), |t| t.start);
        let line = self.source[..at].bytes().filter(|&b| b == b'\n').count() + 1;
        Error::Ir { line, what: what.into() }
    }
}

/// Applies edits that do not overlap.
pub(super) fn apply(source: &str, mut edits: Vec<Edit>) -> String {
    // The sort is stable, so insertions at one position keep their order.
    edits.sort_by_key(|edit| edit.at);
    let added: usize = edits.iter().map(|edit| edit.text.len()).sum();
    let mut text = String::with_capacity(source.len() + added);
    let mut from = 0;
    for edit in edits {
        text.push_str(&source[from..edit.at]);
        text.push_str(&edit.text);
        from = edit.end;
    }
    text.push_str(&source[from..]);
    text
}
