//! From a SASS instruction to the Rust lines that it comes from.
//!
//! PTX has a `.loc` before an instruction that names one line, the innermost of a chain of inlined calls: in a
//! kernel that is nearly always a line of `isa`. LLVM writes the whole chain behind it as a comment. So before
//! the text is assembled, each `.loc` is replaced by one whose line is the index of its chain, and the
//! disassembler's line then leads back to the chain.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;

/// The source file that the replaced `.loc`s name.
pub(crate) const FILE: &str = "warpipe-chains";

/// A source line.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub(crate) struct Frame {
    /// Path as the compiler printed it.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
}

/// The chains of a PTX text.
#[derive(Debug, Default)]
pub(crate) struct Chains {
    /// The line that stands for each chain.
    lines: Vec<Option<Frame>>,
    /// Full paths of the source files.
    paths: Vec<String>,
}

impl Chains {
    /// The PTX text with the index of a chain in the place of each line number, and the chains. The text is as it
    /// was if it has no `.loc`.
    pub fn replace(ptx: &str) -> (String, Self) {
        let mut chains = Self::default();
        let mut indices: HashMap<String, usize> = HashMap::new();
        let mut text = String::with_capacity(ptx.len());
        let files: Vec<(u32, String)> = ptx.lines().filter_map(file).collect();
        chains.paths = files.iter().map(|(_, path)| path.clone()).collect();
        let files: HashMap<u32, String> = files.into_iter().collect();
        for line in ptx.lines() {
            let trimmed = line.trim_start();
            if let Some(rest) = trimmed.strip_prefix(".loc") {
                let chain = chain(rest, &files);
                let next = indices.len();
                let index = *indices.entry(format!("{chain:?}")).or_insert(next);
                if index == next {
                    chains.lines.push(chains.own(&chain));
                }
                // Line 0 means that there is no line.
                let _ = writeln!(text, "\t.loc\t1 {} 0", index + 1);
            } else if file(line).is_none() {
                text += line;
                text.push('\n');
            }
        }
        if !chains.lines.is_empty() {
            let _ = writeln!(text, "\t.file\t1 \"{FILE}\"");
        }
        (text, chains)
    }

    /// Whether the text had line numbers.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The source line behind line `line` of [`FILE`].
    pub fn line(&self, line: usize) -> Option<&Frame> {
        self.lines.get(line.checked_sub(1)?)?.as_ref()
    }

    /// The line of a chain that an author would name: the innermost one outside of `isa`, `pipeline` and the
    /// standard library, or otherwise the outermost one.
    fn own(&self, chain: &[Frame]) -> Option<Frame> {
        let own = chain.iter().find(|frame| !self.is_library(&frame.file));
        own.or(chain.last())
            // Line 0 is code that the compiler made of several lines.
            .filter(|frame| frame.line > 0)
            .map(|frame| Frame { file: self.full(&frame.file), line: frame.line })
    }

    fn is_library(&self, file: &str) -> bool {
        let full = self.full(file);
        let parts: Vec<&str> = full.split(['/', '\\']).collect();
        let library = |name: &str| {
            let bare = name.strip_prefix("warpipe-").unwrap_or(name);
            // In cargo's registry a folder has the version: `warpipe-isa-0.1.0`.
            ["isa", "pipeline"].iter().any(|crate_name| {
                bare == *crate_name
                    || (bare != name
                        && bare.strip_prefix(crate_name).is_some_and(|v| v.starts_with('-')))
            })
        };
        parts.windows(2).any(|pair| pair[1] == "src" && library(pair[0]))
            || full.contains("/library/core/src/")
            || full.contains("/library/stdarch/")
            || full.contains("/library/core/src/../../stdarch/")
    }

    /// The full path of a file that the comment names relative to its crate.
    fn full(&self, file: &str) -> String {
        if Path::new(file).is_absolute() {
            return file.to_owned();
        }
        let end = format!("/{file}");
        let mut paths = self.paths.iter().filter(|path| path.ends_with(&end));
        match (paths.next(), paths.next()) {
            (Some(path), None) => path.clone(),
            // Several crates have such a file; the standard library's are the likelier ones only for names that
            // it has, and those are listed.
            (Some(path), Some(other)) => [path, other]
                .into_iter()
                .find(|p| !p.contains("/library/core/"))
                .unwrap_or(path)
                .clone(),
            // A file of `core` that is in chains alone has no `.file`.
            (None, _) if file.starts_with("src/") && !Path::new(file).exists() => {
                format!("/library/core/{file}")
            }
            (None, _) => file.to_owned(),
        }
    }
}

/// Number and path of a `.file`.
fn file(line: &str) -> Option<(u32, String)> {
    let rest = line.trim_start().strip_prefix(".file")?.trim_start();
    let (number, path) = rest.split_once(|c: char| c.is_ascii_whitespace())?;
    let path = path.trim().strip_prefix('"')?.split('"').next()?;
    Some((number.parse().ok()?, path.to_owned()))
}

/// The chain of a `.loc`, innermost first. `rest` is `1 29 17 // a.rs:29:17 @[ b.rs:5:1 @[ … ] ]`.
fn chain(rest: &str, files: &HashMap<u32, String>) -> Vec<Frame> {
    let (numbers, comment) = rest.split_once("//").unwrap_or((rest, ""));
    let mut frames: Vec<Frame> = comment.split("@[").filter_map(frame).collect();
    // Without the comment there is the innermost line.
    let numbers: Vec<u32> =
        numbers.split([' ', '\t', ',']).filter_map(|w| w.parse().ok()).collect();
    if let (true, [number, line, ..]) = (frames.is_empty(), numbers.as_slice())
        && let Some(path) = files.get(number)
    {
        frames.push(Frame { file: path.clone(), line: *line });
    }
    frames
}

/// `path:line:column` or `path:line`, with brackets behind it.
fn frame(text: &str) -> Option<Frame> {
    let text = text.trim_end_matches([' ', ']']).trim();
    let (before, last) = text.rsplit_once(':')?;
    let last: u32 = last.parse().ok()?;
    let (file, line) = match before.rsplit_once(':').map(|(file, line)| (file, line.parse())) {
        Some((file, Ok(line))) => (file, line),
        _ => (before, last),
    };
    Some(Frame { file: file.to_owned(), line })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTX: &str = "\
	.loc	1 43 18                         // isa/src/op.rs:43:18 @[ pipeline/src/mma/accumulator.rs:173:26 @[ mine/src/lib.rs:355:27 @[ pipeline/src/cta/roles.rs:380:51 @[ mine/src/lib.rs:115:17 ] ] ] ]
	wgmma;
	.loc	1 43 18                         // isa/src/op.rs:43:18 @[ pipeline/src/mma/accumulator.rs:173:26 @[ mine/src/lib.rs:355:27 @[ pipeline/src/cta/roles.rs:380:51 @[ mine/src/lib.rs:115:17 ] ] ] ]
	wgmma;
	.loc	2 7 0
	add;
	.loc	3 12 1                          // src/ops/range.rs:12:1 @[ isa/src/op.rs:9 ]
	sub;
	.file	1 \"/w/isa/src/op.rs\"
	.file	2 \"/w/mine/src/lib.rs\"
	.file	3 \"/rust/library/core/src/ops/range.rs\"
";

    #[test]
    fn each_chain_becomes_a_line_number() {
        let (text, chains) = Chains::replace(PTX);
        assert_eq!(
            text,
            "\t.loc\t1 1 0\n\twgmma;\n\t.loc\t1 1 0\n\twgmma;\n\t.loc\t1 2 0\n\tadd;\n\t.loc\t1 3 0\n\tsub;\n\
             \t.file\t1 \"warpipe-chains\"\n"
        );
        let line = |i| chains.line(i).map(|f| (f.file.as_str(), f.line));
        assert_eq!(line(1), Some(("/w/mine/src/lib.rs", 355)));
        assert_eq!(line(2), Some(("/w/mine/src/lib.rs", 7)));
        // Nothing but libraries: the outermost.
        assert_eq!(line(3), Some(("/w/isa/src/op.rs", 9)));
        assert_eq!((line(0), line(4)), (None, None));
    }

    #[test]
    fn line_0_is_no_line() {
        let loc =
            "\t.loc\t1 0 18 // a/src/lib.rs:0:18 @[ isa/src/op.rs:3:1 @[ b/src/lib.rs:9:1 ] ]\n";
        let (_, chains) = Chains::replace(loc);
        // Not line 9 of b, which only calls what the instruction comes from.
        assert_eq!(chains.line(1), None);
        let loc = "\t.loc\t1 0 18 // isa/src/op.rs:0:18 @[ a/src/lib.rs:3:1 ]\n";
        let (_, chains) = Chains::replace(loc);
        assert_eq!(chains.line(1), Some(&Frame { file: "a/src/lib.rs".into(), line: 3 }));
    }

    #[test]
    fn text_without_lines_stays() {
        let (text, chains) = Chains::replace("\tadd;\n");
        assert_eq!(text, "\tadd;\n");
        assert!(chains.is_empty());
    }

    #[test]
    fn libraries_are_known_in_a_workspace_and_in_the_registry() {
        let chains = Chains::default();
        for file in [
            "/w/isa/src/op.rs",
            "/c/registry/src/x/warpipe-pipeline-0.1.0/src/ring/mod.rs",
            "/c/registry/src/x/warpipe-isa-0.2.0/src/op.rs",
            "/r/library/core/src/cmp.rs",
            "src/ops/no_such_file_here.rs",
        ] {
            assert!(chains.is_library(file), "{file}");
        }
        for file in
            ["/w/gpu-kernels/src/gemm/kernel.rs", "/w/pipelines/src/lib.rs", "/w/src/isa.rs"]
        {
            assert!(!chains.is_library(file), "{file}");
        }
    }
}
