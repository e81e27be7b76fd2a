//! Metadata constants among the module's globals, and the lists that keep them alive.

use super::{Edit, Kind, Module, token};
use crate::{Error, meta::META_SYMBOL_PREFIX};

/// Whether `name`, with its `@`, is a metadata constant.
pub(super) fn is_metadata(name: &str) -> bool {
    name.trim_start_matches('@').trim_matches('"').starts_with(META_SYMBOL_PREFIX)
}

/// The bytes of the constant defined by the tokens `at..end`:
/// `@x = constant [436 x i8] c"…"`, or a structure of such strings and of zeros.
pub(super) fn constant_bytes(module: &Module, at: usize, end: usize) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    // The type is written before each value, so `c"…"` pieces in order are the value; a piece of
    // zeros is spelled by its type alone.
    for i in at..end {
        match (module.kind(i), module.text(i)) {
            (Some(Kind::Str), text) if module.text(i - 1) == "c" => {
                bytes.extend(unescape(&text[1..text.len() - 1]));
            }
            (Some(Kind::Word), "zeroinitializer") => {
                let open = (at..i).rev().find(|&i| module.is(i, b'['));
                let count = open.and_then(|open| module.text(open + 1).parse::<usize>().ok());
                let count = count.ok_or_else(|| {
                    module.error(i, "a metadata constant is not an array of bytes")
                })?;
                bytes.extend(std::iter::repeat_n(0, count));
            }
            _ => {}
        }
    }
    if bytes.is_empty() {
        return Err(module.error(at, "a metadata constant holds no bytes"));
    }
    Ok(bytes)
}

/// Undoes LLVM's `\XX` escapes.
fn unescape(text: &str) -> Vec<u8> {
    let raw = text.as_bytes();
    let hex = |b: u8| (b as char).to_digit(16);
    let (mut bytes, mut at) = (Vec::with_capacity(raw.len()), 0);
    while at < raw.len() {
        if raw[at] == b'\\'
            && at + 2 < raw.len()
            && let (Some(high), Some(low)) = (hex(raw[at + 1]), hex(raw[at + 2]))
        {
            bytes.push((high * 16 + low) as u8);
            at += 3;
            continue;
        }
        if raw[at] == b'\\' && raw.get(at + 1) == Some(&b'\\') {
            at += 1;
        }
        bytes.push(raw[at]);
        at += 1;
    }
    bytes
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
