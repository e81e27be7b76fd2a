//! Splits a PTX module with many kernels into a module for each kernel, and joins modules.
//!
//! The driver assembles whole modules, so a kernel that is loaded by itself needs its own module: the
//! header, the kernel, and every function and variable that it reaches. The split finds these by name: a
//! name in an item refers to all items that declare it. If an unrelated word (such as an instruction) has
//! the same name as an item, the split keeps an item too many, which the assembler drops. It never keeps
//! one too few.

use crate::{Error, facts::PREFIX};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// One kernel's module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelPtx {
    /// Entry name.
    pub kernel: String,
    /// PTX text.
    pub text: String,
}

/// Splits a module into one for each of its `.entry`s, in the order of the text.
pub fn split(text: &str) -> Result<Vec<KernelPtx>, Error> {
    let items = items(text)?;
    let mut declares: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (i, item) in items.iter().enumerate() {
        for name in &item.names {
            declares.entry(name).or_default().push(i);
        }
    }
    // Items that belong to the whole module: version and target, source files, sections.
    let everywhere: BTreeSet<usize> =
        (0..items.len()).filter(|&i| items[i].names.is_empty()).collect();
    let entries = items.iter().filter(|item| item.is_entry);
    Ok(entries
        .map(|entry| {
            let kernel = entry.names[0];
            let (mut kept, mut open) = (everywhere.clone(), declares[kernel].clone());
            while let Some(i) = open.pop() {
                if kept.insert(i) {
                    let named = words(items[i].text).filter(Word::is_name);
                    open.extend(named.filter_map(|name| declares.get(name.text)).flatten());
                }
            }
            let text = kept.iter().map(|&i| items[i].text).collect();
            KernelPtx { kernel: kernel.to_owned(), text }
        })
        .collect())
}

/// Joins modules of one kernel each into one module, for tools that take all of an image. What several modules have
/// alike is there once; source files get numbers of the whole.
pub(crate) fn join(modules: &[KernelPtx]) -> Result<String, Error> {
    let mut out = String::new();
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    let mut files: Vec<String> = Vec::new();
    let mut last = Vec::new();
    for (index, module) in modules.iter().enumerate() {
        let text = number_files(&module.text, &mut files);
        let items = items(&text)?;
        // Something else may have had the same name in another module.
        let own = |item: &&Item| !item.is_entry && !item.text.trim_start().starts_with(".extern");
        let named = || items.iter().filter(own);
        let clash = named().any(|item| {
            item.names.iter().any(|&name| texts.get(name).is_some_and(|known| known != item.text))
        });
        let renamed: BTreeSet<&str> = if clash {
            named().flat_map(|item| item.names.iter().copied()).collect()
        } else {
            BTreeSet::new()
        };
        for item in &items {
            let text = rename(item.text, &renamed, index);
            for name in &item.names {
                texts.entry((*name).to_owned()).or_insert_with(|| item.text.to_owned());
            }
            if !seen.insert(text.trim().to_owned()) {
                continue;
            }
            // Files and sections stand behind the code.
            let behind = [".file", ".section"].iter().any(|word| text.trim().starts_with(word));
            if behind { last.push(text) } else { out += &text }
        }
    }
    out.extend(last);
    Ok(if out.is_empty() { out } else { out.trim_start().to_owned() + "\n" })
}

/// The text with other numbers of source files: a file's place in `files`, from 1.
fn number_files(text: &str, files: &mut Vec<String>) -> String {
    let directive = |line: &str, word| {
        let rest = line.trim_start().strip_prefix(word)?.trim_start();
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        (end > 0).then(|| (rest[..end].to_owned(), rest[end..].trim().to_owned()))
    };
    let mut numbers = BTreeMap::new();
    for (number, path) in text.lines().filter_map(|line| directive(line, ".file")) {
        let known = files.iter().position(|known| *known == path);
        let index = known.unwrap_or_else(|| {
            files.push(path);
            files.len() - 1
        });
        numbers.insert(number, index + 1);
    }
    if numbers.is_empty() {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let found = [".file", ".loc"].into_iter().find_map(|word| {
            let (number, rest) = directive(line, word)?;
            Some((word, *numbers.get(&number)?, rest))
        });
        let _ = match found {
            Some((word, number, rest)) => writeln!(out, "\t{word}\t{number} {rest}"),
            None => writeln!(out, "{line}"),
        };
    }
    out
}

/// The text with `_<index>` behind each of `names`.
fn rename(text: &str, names: &BTreeSet<&str>, index: usize) -> String {
    if names.is_empty() {
        return text.to_owned();
    }
    let (mut out, mut from) = (String::with_capacity(text.len()), 0);
    for word in words(text).filter(|word| word.is_name() && names.contains(word.text)) {
        let end = word.at + word.text.len();
        let _ = write!(out, "{}_{index}", &text[from..end]);
        from = end;
    }
    out + &text[from..]
}

/// A module's text as the image has it: the same, whichever other kernels were built with it and wherever its crate was.
///
/// llc numbers the functions of the whole input in its labels, and repeats the names of blocks in comments, where the
/// names of crates have hashes. Here the functions are numbered from 0, and the only comments are those that describe
/// the kernels ([`PREFIX`]).
pub fn canonical(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        // Behind a `.loc` stand the calls that were inlined there, which `inspect` reads.
        let kept = line.starts_with(PREFIX) || line.trim_start().starts_with(".loc");
        let code = if kept { line } else { without_comment(line).trim_end() };
        if !code.is_empty() {
            out += code;
            out.push('\n');
        }
    }
    renumber(&out)
}

/// A line up to its comment. `//` in a string, such as the path of a source file, is none.
pub(crate) fn without_comment(line: &str) -> &str {
    let mut comments = line.match_indices("//");
    let comment = comments.find(|&(at, _)| line[..at].matches('"').count().is_multiple_of(2));
    comment.map_or(line, |(at, _)| &line[..at])
}

/// Numbers the functions in labels from 0.
fn renumber(text: &str) -> String {
    const LABEL: &str = "$L__BB";
    let mut functions: Vec<&str> = Vec::new();
    let mut parts = text.split(LABEL);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        let (number, rest) = part.split_at(digits);
        let known = functions.iter().position(|&function| function == number);
        let index = known.unwrap_or_else(|| {
            functions.push(number);
            functions.len() - 1
        });
        let _ = write!(out, "{LABEL}{index}{rest}");
    }
    out
}

/// Fails if several kernels refer to a variable, because each module would have its own copy. `variables`
/// are those in global memory; constants may be copied.
pub(crate) fn check_variables(
    modules: &[KernelPtx],
    variables: &BTreeSet<String>,
) -> Result<(), Error> {
    for variable in variables {
        let names = |text| words(text).any(|word| word.text == variable);
        let mut kernels = modules.iter().filter(|module| names(&module.text));
        if let (Some(one), Some(other)) = (kernels.next(), kernels.next()) {
            return Err(Error::SharedVariable {
                variable: variable.clone(),
                kernels: [one.kernel.clone(), other.kernel.clone()],
            });
        }
    }
    Ok(())
}

/// A directive, declaration or definition at the top of a module.
struct Item<'a> {
    /// Its text, and the comments before it.
    text: &'a str,
    /// The names that it declares.
    names: Vec<&'a str>,
    /// Whether it is a kernel.
    is_entry: bool,
}

/// The items of a module. Together they are its text, except for the text after the last item.
fn items(text: &str) -> Result<Vec<Item<'_>>, Error> {
    let mut items = Vec::new();
    let mut start = 0;
    let mut reader = Reader::default();
    for word in words(text) {
        if reader.read(&word) {
            let Reader { names, kind, .. } = std::mem::take(&mut reader);
            let end = word.at + word.text.len();
            let is_entry = kind == Some(Kind::Entry);
            if is_entry && names.is_empty() {
                return Err(error(text, start, "an entry without a name"));
            }
            items.push(Item { text: &text[start..end], names, is_entry });
            start = end;
        } else if reader.depth < 0 {
            return Err(error(text, word.at, "a bracket closes that none has opened"));
        }
    }
    if reader.kind.is_some() {
        return Err(error(text, start, "an item that does not end"));
    }
    Ok(items)
}

fn error(text: &str, at: usize, what: &str) -> Error {
    let line = text[..at].matches('\n').count() + 1;
    Error::Ptx { line, what: what.to_owned() }
}

/// The kind of an item, which decides how it ends and where its names are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// `.version`, `.target`, `.address_size`, `.file`: with the line.
    Line,
    /// `.entry`: with its body.
    Entry,
    /// `.func`: with its body, or as a prototype with a semicolon.
    Function,
    /// `.section`: with its body.
    Section,
    /// Variables and the rest: with a semicolon.
    Statement,
}

/// Reads one item word by word.
#[derive(Default)]
struct Reader<'a> {
    kind: Option<Kind>,
    names: Vec<&'a str>,
    depth: i32,
    /// Between a variable's `=` and the comma after its value: names are references there.
    in_value: bool,
}

impl<'a> Reader<'a> {
    /// Reads a word. Returns whether it is the item's last one.
    fn read(&mut self, word: &Word<'a>) -> bool {
        use Kind::{Entry, Function, Line, Section, Statement};
        let first = self.kind.is_none();
        match word.text {
            "\n" => return self.kind == Some(Line),
            ".version" | ".target" | ".address_size" | ".file" if first => self.kind = Some(Line),
            ".section" if first => self.kind = Some(Section),
            // Linkage (`.visible`, `.weak`, …) stands before these two.
            ".entry" if self.depth == 0 => self.kind = Some(Entry),
            ".func" if self.depth == 0 => self.kind = Some(Function),
            _ if first => self.kind = Some(Statement),
            _ => {}
        }
        match word.text {
            "{" | "(" | "[" => self.depth += 1,
            "}" | ")" | "]" => self.depth -= 1,
            "=" if self.depth == 0 => self.in_value = true,
            "," if self.depth == 0 => self.in_value = false,
            _ if self.depth == 0 && word.is_name() && !self.in_value => match self.kind {
                // The first name outside of brackets; what follows are directives with numbers.
                Some(Entry | Function) if self.names.is_empty() => self.names.push(word.text),
                Some(Statement) => self.names.push(word.text),
                _ => {}
            },
            _ => {}
        }
        self.depth == 0
            && match self.kind {
                Some(Entry | Function | Section) => matches!(word.text, "}" | ";"),
                Some(Statement) => word.text == ";",
                _ => false,
            }
    }
}

/// A name, directive, number, string, mark of punctuation or line end.
struct Word<'a> {
    at: usize,
    text: &'a str,
}

impl Word<'_> {
    /// Whether it can be the name of a function or variable. Registers are not.
    fn is_name(&self) -> bool {
        self.text.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '$'))
    }
}

/// Characters of names and numbers.
fn in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '$')
}

/// The words of a text, without comments and blanks. `ld.param` is two: `ld`, `.param`.
fn words(text: &str) -> impl Iterator<Item = Word<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let rest = &text[at..];
            let first = rest.chars().next()?;
            let name_end = |from: usize| {
                rest[from..].find(|c| !in_name(c)).map_or(rest.len(), |end| from + end)
            };
            let through = |open: usize, close: &str| {
                rest[open..].find(close).map_or(rest.len(), |n| open + n + close.len())
            };
            let (len, skip) = match first {
                '/' if rest.starts_with("//") => (rest.find('\n').unwrap_or(rest.len()), true),
                '/' if rest.starts_with("/*") => (through(2, "*/"), true),
                '"' => (through(1, "\""), false),
                '\n' => (1, false),
                c if c.is_whitespace() => (c.len_utf8(), true),
                c if in_name(c) || matches!(c, '.' | '%') => (name_end(1), false),
                c => (c.len_utf8(), false),
            };
            let word = Word { at, text: &rest[..len] };
            at += len;
            if !skip {
                return Some(word);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_modules_text_does_not_tell_what_was_built_with_it() {
        let text = "// -- Begin\n// warpipe: {\"a\": 1} // kept\n.file 1 \"a//b\" // c\n\t.loc 1 2 3 // a.rs:2 @[ b.rs:1 ]\n\n$L__BB12_1: // %name\n    bra \
                    $L__BB12_2; // BB12_1\n$L__BB7_1:\n";
        let right = "// warpipe: {\"a\": 1} // kept\n.file 1 \"a//b\"\n\t.loc 1 2 3 // a.rs:2 @[ b.rs:1 ]\n$L__BB0_1:\n    bra $L__BB0_2;\n$L__BB1_1:\n";
        assert_eq!(canonical(text), right);
        assert_eq!(canonical(right), right);
    }

    #[test]
    fn modules_are_joined() {
        let one = |kernel: &str, text: &str| KernelPtx { kernel: kernel.into(), text: text.into() };
        let head = ".version 8.3\n.target sm_90a\n.extern .shared .b8 smem[];\n";
        let table = ".global .u32 table[2] = {1, 2};\n";
        let other = ".global .u32 table[2] = {3, 4};\n";
        let entry = |name: &str| {
            format!(".entry {name}() {{\n\t.loc\t1 2 3\nmov.u64 %rd1, table;\nsmem;\n}}\n")
        };
        let files = "\t.section .debug_macinfo { }\n\t.file\t1 \"/a.rs\"\n";
        let files_2 = "\t.section .debug_macinfo { }\n\t.file\t1 \"/b.rs\"\n\t.file\t2 \"/a.rs\"\n";
        let joined = join(&[
            one("x", &format!("{head}{table}{}{files}", entry("x"))),
            one("y", &format!("{head}{table}{}{files_2}", entry("y"))),
            one("z", &format!("{head}{other}{}{files}", entry("z"))),
        ])
        .unwrap();
        let right = format!(
            "{head}{table}{}{}.global .u32 table_2[2] = {{3, 4}};\n{}\t.section .debug_macinfo {{ }}\n\t.file\t1 \
             \"/a.rs\"\n\t.file\t2 \"/b.rs\"\n",
            entry("x"),
            entry("y").replace(".loc\t1", ".loc\t2"),
            entry("z").replace("table", "table_2"),
        );
        let lines = |text: &str| {
            text.lines().filter(|l| !l.is_empty()).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(lines(&joined), lines(&right));
        assert_eq!(split(&joined).unwrap().len(), 3);
        assert_eq!(join(&[]).unwrap(), "");
    }

    const HEAD: &str = "// made by hand\n.version 8.0\n.target sm_90a // } \n.address_size 64\n";

    /// What each kernel's module has beyond the head, blanks as one.
    fn parts(body: &str) -> Vec<(String, String)> {
        let modules = split(&format!("{HEAD}{body}")).unwrap();
        let rest = |text: &str| {
            let rest = text.strip_prefix(HEAD).expect("the head, as it was");
            rest.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        modules.into_iter().map(|m| (m.kernel, rest(&m.text))).collect()
    }

    fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
        all.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
    }

    #[test]
    fn a_kernel_keeps_what_it_reaches() {
        let smem = ".extern .shared .align 1024 .b8 smem[];";
        let table = ".global .align 4 .u32 table[2] = {1, 2};";
        let pointer = ".global .u64 pointer = generic(table);";
        let proto = ".func (.param .b32 r) leaf ( .param .b32 p ) ;";
        let leaf = ".func (.param .b32 r) leaf ( .param .b32 p ) { { ld.global.u64 %rd1, [pointer]; } ret; }";
        let outer = ".func outer() { call leaf, (p); }";
        let one = ".visible .entry one( .param .u32 one_param_0 ) .maxntid 128, 1, 1 { mov.u32 %r1, smem; }";
        let two = ".visible .entry two() { call outer, (); ret; }";
        let body = [smem, table, pointer, proto, outer, leaf, one, two].join("\n");
        assert_eq!(
            parts(&body),
            pairs(&[
                ("one", &[smem, one].join(" ")),
                ("two", &[table, pointer, proto, outer, leaf, two].join(" ")),
            ])
        );
    }

    #[test]
    fn comments_and_strings_name_nothing() {
        let body = "/* .entry no() { */ .const .b8 a[1]; // b\n.const .b8 b[1];\n\
            .entry k() { // a } \n mov.u32 %a, %b; .pragma \"a } b\"; }";
        assert_eq!(
            parts(body),
            pairs(&[("k", ".entry k() { // a } mov.u32 %a, %b; .pragma \"a } b\"; }")])
        );
    }

    #[test]
    fn variables_share_a_declaration() {
        let body = ".global .u32 a = 1, b[2] = {3, 4}, c;\n.global .u64 d = c;\n\
            .entry x() { b; }\n.entry y() { d; }\n.entry z() { add.u32 1; }";
        let abc = ".global .u32 a = 1, b[2] = {3, 4}, c;";
        assert_eq!(
            parts(body),
            pairs(&[
                ("x", &format!("{abc} .entry x() {{ b; }}")),
                ("y", &format!("{abc} .global .u64 d = c; .entry y() {{ d; }}")),
                ("z", ".entry z() { add.u32 1; }"),
            ])
        );
    }

    #[test]
    fn files_and_sections_stay_with_each() {
        let body = ".entry x() { .loc 1 2 3 }\n.entry y() { ret; }\n\
            .section .debug_macinfo { }\n.file 1 \"/a b/c.rs\"\n";
        let rest = ".section .debug_macinfo { } .file 1 \"/a b/c.rs\"";
        assert_eq!(
            parts(body),
            pairs(&[
                ("x", &format!(".entry x() {{ .loc 1 2 3 }} {rest}")),
                ("y", &format!(".entry y() {{ ret; }} {rest}")),
            ])
        );
    }

    #[test]
    fn a_kernel_that_launches_another_keeps_it() {
        let body = ".entry child() { ret; }\n.entry parent() { mov.u64 %rd1, child; }";
        assert_eq!(parts(body)[1].1.matches(".entry").count(), 2);
        assert_eq!(parts(body)[0].1.matches(".entry").count(), 1);
    }

    #[test]
    fn a_variable_belongs_to_one_kernel() {
        let body =
            ".global .u32 a;.global .u32 b;.entry x() { a; }.entry y() { a; }.entry z() { b; }";
        let modules = split(&format!("{HEAD}{body}")).unwrap();
        let check = |name: &str| check_variables(&modules, &[name.to_owned()].into());
        assert!(check("b").is_ok() && check("absent").is_ok());
        let said = check("a").unwrap_err().to_string();
        assert!(said.starts_with("kernels x and y refer to the variable a; "), "{said}");
    }

    #[test]
    fn no_kernels_no_modules() {
        assert_eq!(parts(".func f() { ret; }"), []);
    }

    #[test]
    fn broken_text_is_one_line() {
        let said = |body: &str| split(&format!("{HEAD}{body}")).unwrap_err().to_string();
        assert_eq!(said(".entry x() {"), "PTX, line 5: an item that does not end");
        assert_eq!(said("\n}"), "PTX, line 6: a bracket closes that none has opened");
        assert_eq!(said(".entry () { }"), "PTX, line 5: an entry without a name");
    }
}
