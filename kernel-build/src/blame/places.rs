//! From an instruction of PTX to a line of Rust, and to the calls that were inlined around it.
//!
//! LLVM's `.loc` has the file and the line of an instruction, which is mostly a line of `isa`; the calls that lead
//! there are only in the metadata of the optimised module. So [`number`] gives each place of the module its own
//! number as a line, llc writes this number into `.loc`, and [`Places`] reads what is behind the number.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::{Path, PathBuf},
};

/// The column of a numbered place, the largest that LLVM keeps. A `.loc` with another one is llc's own.
const MARK: u32 = 65535;

/// A line of Rust.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Frame {
    pub file: PathBuf,
    /// From 1; 0 if the optimiser merged several lines.
    pub line: u32,
    pub column: u32,
}

/// The module with the number of its metadata as the line of each place.
pub(super) fn number(module: &str) -> String {
    let mut out = String::with_capacity(module.len());
    for line in module.lines() {
        let place = node(line).filter(|(_, text)| is_place(text));
        if let Some((id, text)) = place
            && let Some((head, rest)) = text.split_once('(')
        {
            let kept: Vec<&str> = rest
                .split(", ")
                .filter(|part| !part.starts_with("line:") && !part.starts_with("column:"))
                .collect();
            let kept = kept.join(", ");
            let _ = write!(out, "!{id} = {head}(line: {id}, column: {MARK}, {kept}");
        } else {
            out += line;
        }
        out.push('\n');
    }
    out
}

/// For each line of a PTX text, from its first one, the number of its place.
pub(super) fn numbers(ptx: &str) -> Vec<Option<u32>> {
    let mut now = None;
    let lines = ptx.lines().map(|line| {
        let line = line.trim();
        if let Some(rest) = line.strip_prefix(".loc") {
            let numbers: Vec<u32> =
                rest.split_whitespace().map_while(|word| word.parse().ok()).collect();
            now = match numbers[..] {
                [_, id, MARK] => Some(id),
                _ => None,
            };
        } else if line.contains(".entry") || line.contains(".func") {
            now = None;
        }
        now
    });
    lines.collect()
}

/// The places of a module.
pub(super) struct Places<'a> {
    nodes: BTreeMap<u32, &'a str>,
}

impl<'a> Places<'a> {
    /// Reads the metadata of a module, as it was before [`number`].
    pub fn of(module: &'a str) -> Self {
        Self { nodes: module.lines().filter_map(node).collect() }
    }

    /// The line of a place, and the calls around it, innermost first.
    pub fn chain(&self, id: u32) -> Vec<Frame> {
        let mut frames = Vec::new();
        let mut next = Some(id);
        while let Some(text) = next.and_then(|id| self.nodes.get(&id)) {
            if !is_place(text) || frames.len() > self.nodes.len() {
                break;
            }
            let number = |key| field(text, key).and_then(|text| text.parse().ok()).unwrap_or(0);
            let file = reference(text, "scope").and_then(|scope| self.file(scope));
            if let Some(file) = file {
                frames.push(Frame { file, line: number("line"), column: number("column") });
            }
            next = reference(text, "inlinedAt");
        }
        frames
    }

    /// The file of a scope: a function, or a block of one.
    fn file(&self, mut scope: u32) -> Option<PathBuf> {
        // A block lies in another one, of which there are at most as many as nodes.
        for _ in 0..self.nodes.len() {
            let text = self.nodes.get(&scope)?;
            if let Some(file) = reference(text, "file") {
                let text = self.nodes.get(&file)?;
                let directory = quoted(text, "directory").unwrap_or_default();
                return Some(clean(&Path::new(directory).join(quoted(text, "filename")?)));
            }
            scope = reference(text, "scope")?;
        }
        None
    }
}

/// A path without links, and without the `..` that rustc writes for modules with a `path` attribute.
pub(crate) fn clean(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// A line of metadata: `!12 = distinct !DILocation(...)`.
fn node(line: &str) -> Option<(u32, &str)> {
    let (id, text) = line.strip_prefix('!')?.split_once(" = ")?;
    Some((id.parse().ok()?, text))
}

fn is_place(text: &str) -> bool {
    text.trim_start_matches("distinct ").starts_with("!DILocation(")
}

/// The value of `key` up to the next comma or bracket.
fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let inside = text.split_once('(')?.1;
    let parts = inside.split(", ").map(|part| part.trim_end_matches(')'));
    parts.filter_map(|part| part.split_once(": ")).find(|(name, _)| *name == key).map(|(_, v)| v)
}

fn reference(text: &str, key: &str) -> Option<u32> {
    field(text, key)?.strip_prefix('!')?.parse().ok()
}

/// A string, in which a comma may be.
fn quoted<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("{key}: \""))?;
    rest.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = "\
define void @k() !dbg !10 {
!10 = distinct !DISubprogram(name: \"f<a, b>\", scope: !12, file: !11, line: 22, unit: !4)
!11 = !DIFile(filename: \"src/lib.rs\", directory: \"/no/such, folder\", checksumkind: CSK_MD5)
!15 = !DILocation(line: 33, column: 14, scope: !16, inlinedAt: !20)
!16 = distinct !DILexicalBlock(scope: !18, line: 3)
!17 = !DIFile(filename: \"/no/such/wgmma/lib.rs\", directory: \"/elsewhere\")
!18 = distinct !DISubprogram(name: \"keep\", file: !17, line: 30)
!20 = distinct !DILocation(line: 24, column: 5, scope: !10)
!21 = !DILocation(line: 0, scope: !10)
";

    #[test]
    fn a_place_has_the_calls_around_it() {
        let places = Places::of(MODULE);
        let frame = |file: &str, line, column| Frame { file: file.into(), line, column };
        let outer = "/no/such, folder/src/lib.rs";
        assert_eq!(places.chain(15), [frame("/no/such/wgmma/lib.rs", 33, 14), frame(outer, 24, 5)]);
        assert_eq!(places.chain(21), [frame(outer, 0, 0)]);
        assert!(places.chain(10).is_empty());
        assert!(places.chain(99).is_empty());
    }

    #[test]
    fn places_are_numbered() {
        let numbered = number(MODULE);
        for line in [
            "!15 = !DILocation(line: 15, column: 65535, scope: !16, inlinedAt: !20)\n",
            "!20 = distinct !DILocation(line: 20, column: 65535, scope: !10)\n",
            "!21 = !DILocation(line: 21, column: 65535, scope: !10)\n",
            "!16 = distinct !DILexicalBlock(scope: !18, line: 3)\n",
        ] {
            assert!(numbered.contains(line), "no {line} in\n{numbered}");
        }
        assert_eq!(numbered.lines().count(), MODULE.lines().count());
    }

    #[test]
    fn an_instruction_has_the_number_of_the_last_loc() {
        let ptx = ".visible .entry k()\n{\n\t.loc\t1 22 0\n\tret;\n\t.loc\t2 15 65535\n\tadd;\n\tsub;\n}\n.entry l()\n";
        let right = [None, None, None, None, Some(15), Some(15), Some(15), Some(15), None];
        assert_eq!(numbers(ptx), right);
    }
}
