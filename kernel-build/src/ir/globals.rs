//! Metadata constants among the module's globals, and the lists that keep them alive.

use super::module::{Edit, Module};
use super::token::{self, Kind};
use crate::{Error, meta::META_SYMBOL_PREFIX};

/// Whether `name`, with its `@`, is a metadata constant.
pub(super) fn is_metadata(name: &str) -> bool {
    name.trim_start_matches('@').trim_matches('"').starts_with(META_SYMBOL_PREFIX)
}

/// Takes the metadata constants out of `@llvm.used` (tokens `at..end`), and the list itself if
/// nothing else is in it.
pub(super) fn without_metadata(module: &Module, at: usize, end: usize) -> Result<Vec<Edit>, Error> {
    let unknown = || module.error(at, "a list of used globals of unknown form");
    let brackets: Vec<_> = (at..end).filter(|&i| module.is(i, b'[')).collect();
    let &[type_open, open] = brackets.as_slice() else { return Err(unknown()) };
    let close = token::matching(module.tokens, open).ok_or_else(unknown)?;
    let all = token::arguments(module.tokens, open, close);
    let kept: Vec<&str> = all
        .iter()
        .filter(|entry| {
            !entry.iter().any(|t| t.kind == Kind::Global && is_metadata(t.text(module.source)))
        })
        .map(|entry| &module.source[entry[0].start..entry[entry.len() - 1].end])
        .collect();
    if kept.len() == all.len() {
        return Ok(Vec::new());
    }
    let line = &module.tokens[at..end];
    let edit = if kept.is_empty() {
        Edit { at: line[0].start, end: line[line.len() - 1].end, text: String::new() }
    } else {
        Edit {
            at: module.tokens[type_open].start,
            end: module.tokens[close].end,
            text: format!("[{} x ptr] [{}]", kept.len(), kept.join(", ")),
        }
    };
    Ok(vec![edit])
}

/// The variables of an optimised module, by their names in PTX: what is in global memory and not
/// constant.
pub(crate) fn variables(source: &str) -> Vec<String> {
    let of_line = |line: &str| {
        let (name, rest) = line.strip_prefix('@')?.split_once(" = ")?;
        let shared = rest.contains("addrspace(3)");
        let what = rest.split(' ').find(|word| matches!(*word, "global" | "constant"))?;
        // PTX has no dots in names; LLVM writes them so.
        (what == "global" && !shared).then(|| name.trim_matches('"').replace('.', "_$_"))
    };
    source.lines().filter_map(of_line).collect()
}
