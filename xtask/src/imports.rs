//! Which source file of a crate imports which, and the circles among them.
//!
//! The graph is read from the text of a crate's source folder: `use` declarations, and paths that
//! begin with `crate::`, `self::` or `super::`. It needs no compiler, and does not expand macros. The
//! crate's root file (`lib.rs`, `main.rs`) is a module like the others. A name that a module
//! re-exports counts as imported from the file that defines it, and a module that re-exports a name
//! imports it only if its own code uses it.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{fs, io};

/// A module's path: `crate::a::b` is `["a", "b"]`. Each has a file of its own.
pub type Module = Vec<String>;

/// The modules that each module names.
pub type Graph = BTreeMap<Module, BTreeSet<Module>>;

/// Reads the graph of a source folder, which holds `lib.rs` or `main.rs`.
pub fn import_graph(source: &Path) -> io::Result<Graph> {
    let mut files = BTreeMap::new();
    collect(source, &mut Vec::new(), &mut files)?;
    Ok(graph_of(&files))
}

/// The graph of files given by module and text.
pub fn graph_of(files: &BTreeMap<Module, String>) -> Graph {
    let source = Source::of(files);
    let imports = |(module, file): (&Module, &File)| {
        let named = file.paths.iter().filter_map(|(inline, path)| {
            let at: Module = module.iter().chain(inline).cloned().collect();
            source.resolve(path, &at, 0)
        });
        (module.clone(), named.filter(|named| named != module).collect())
    };
    source.files.iter().map(imports).collect()
}

/// The sets of modules that can reach each other, largest first; modules in no circle are left out.
pub fn circles(graph: &Graph) -> Vec<Vec<Module>> {
    let reach: BTreeMap<&Module, BTreeSet<&Module>> =
        graph.keys().map(|module| (module, reachable(graph, module))).collect();
    let mut found: BTreeSet<Vec<Module>> = BTreeSet::new();
    for (module, to) in &reach {
        let circle = to.iter().filter(|other| reach[**other].contains(module));
        let circle: Vec<Module> = circle.map(|other| (*other).clone()).collect();
        if !circle.is_empty() {
            found.insert(circle);
        }
    }
    let mut found: Vec<_> = found.into_iter().collect();
    found.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    found
}

fn reachable<'a>(graph: &'a Graph, from: &'a Module) -> BTreeSet<&'a Module> {
    let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(module) = next.pop() {
        next.extend(graph[module].iter().filter(|to| seen.insert(*to)));
    }
    seen
}

fn collect(
    folder: &Path,
    module: &mut Module,
    files: &mut BTreeMap<Module, String>,
) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut of = module.clone();
        if path.is_dir() {
            of.push(name);
            collect(&path, &mut of, files)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            let root = module.is_empty() && matches!(&*name, "lib" | "main");
            if !root && name != "mod" {
                of.push(name);
            }
            files.insert(of, fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

/// The text with its comments, and what is inside its string literals, left out. Lines stay lines.
pub fn code(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(c) = rest.chars().next() {
        let hashes = rest[1.min(rest.len())..].chars().take_while(|c| *c == '#').count();
        let in_word = out.chars().next_back().is_some_and(is_word);
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if c == 'r' && !in_word && rest[1 + hashes..].starts_with('"') {
            let close = format!("\"{}", "#".repeat(hashes));
            let open = 2 + hashes;
            rest[open..].find(&close).map_or(rest.len(), |end| open + end + close.len())
        } else if c == '"' {
            let mut escaped = false;
            let end = rest[1..].find(|c| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            end.map_or(rest.len(), |end| end + 2)
        } else if let Some(length) = ["'\"'", "'{'", "'}'", "'\\''"]
            .iter()
            .find_map(|literal| rest.starts_with(literal).then_some(literal.len()))
        {
            // Characters that would be taken for the start of a string or of a block.
            length
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        };
        if !rest.starts_with('/') {
            out.push_str("\"\"");
        }
        out.extend(rest[..skipped].chars().filter(|c| *c == '\n'));
        rest = &rest[skipped..];
    }
    out
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// What the graph needs of a file.
struct File {
    code: String,
    /// The paths that it names, each with the inline modules around it.
    paths: Paths,
    /// Where the names that its `use` declarations bind come from, with `*` for all of a module's.
    bound: Bound,
}

/// The files of a crate.
struct Source {
    files: BTreeMap<Module, File>,
}

/// Re-exports of a re-export that are followed.
const DEEPEST: usize = 8;

impl Source {
    fn of(files: &BTreeMap<Module, String>) -> Self {
        let file = |text: &String| {
            let code = code(text);
            let (paths, bound) = paths(&code);
            File { code, paths, bound }
        };
        Self { files: files.iter().map(|(module, text)| (module.clone(), file(text))).collect() }
    }

    /// The module whose file defines what a path in module `at` names, if that is one of the crate's.
    fn resolve(&self, path: &[String], at: &Module, depth: usize) -> Option<Module> {
        let (mut rest, mut to) = match path.first()?.as_str() {
            "crate" => (&path[1..], Module::new()),
            "self" | "super" => (path, at.clone()),
            child => {
                let below: Module = at.iter().cloned().chain([child.to_owned()]).collect();
                self.files.contains_key(&below).then(|| (path, at.clone()))?
            }
        };
        while let Some("self" | "super") = rest.first().map(String::as_str) {
            if rest[0] == "super" {
                to.pop();
            }
            rest = &rest[1..];
        }
        // An inline module lies in the file of a module above it.
        while !self.files.contains_key(&to) {
            to.pop()?;
        }
        Some(self.locate(to, rest, depth))
    }

    /// The module whose file defines what `path` names below module `at`.
    fn locate(&self, at: Module, path: &[String], depth: usize) -> Module {
        let [name, rest @ ..] = path else { return at };
        let below: Module = at.iter().cloned().chain([name.clone()]).collect();
        if self.files.contains_key(&below) {
            return self.locate(below, rest, depth);
        }
        let file = &self.files[&at];
        if depth == DEEPEST || defines(&file.code, name) {
            return at;
        }
        for (bound, from) in &file.bound {
            let found = if bound == name {
                let path: Vec<String> = from.iter().chain(rest).cloned().collect();
                self.resolve(&path, &at, depth + 1)
            } else if bound == "*" {
                // Only if that module has the name.
                let module = self.resolve(&from[..from.len() - 1], &at, depth + 1);
                module
                    .map(|module| self.locate(module, path, depth + 1))
                    .filter(|module| *module != at && defines(&self.files[module].code, name))
            } else {
                None
            };
            if let Some(module) = found {
                return module;
            }
        }
        at
    }
}

/// Whether a file's code has an item of this name.
fn defines(code: &str, name: &str) -> bool {
    const ITEMS: [&str; 9] =
        ["struct", "enum", "union", "trait", "type", "fn", "const", "static", "macro_rules!"];
    code.match_indices(name).any(|(at, _)| {
        let ends = code[at + name.len()..].chars().next().is_none_or(|c| !is_word(c));
        let before = code[..at].trim_end();
        ends && before.len() < at && ITEMS.iter().any(|item| before.ends_with(item))
    })
}

type Paths = Vec<(Vec<String>, Vec<String>)>;
type Bound = Vec<(String, Vec<String>)>;

/// The paths that a text names, each with the inline modules around it; and the names that the `use`
/// declarations outside of inline modules bind, each with its path.
fn paths(text: &str) -> (Paths, Bound) {
    let (mut out, mut bound) = (Vec::new(), Vec::new());
    let own = without_declarations(text);
    // Inline modules that are open, each with the number of blocks open outside of it.
    let (mut inline, mut open): (Vec<(String, usize)>, usize) = (Vec::new(), 0);
    for (at, c) in text.char_indices() {
        match c {
            '{' => {
                let before = text[..at].trim_end();
                let start = before.rfind(|c| !is_word(c)).map_or(0, |i| i + 1);
                if before[..start].trim_end().ends_with("mod") {
                    inline.push((before[start..].to_owned(), open));
                }
                open += 1;
            }
            '}' => {
                open = open.saturating_sub(1);
                if inline.last().is_some_and(|(_, outside)| *outside == open) {
                    inline.pop();
                }
            }
            _ => {}
        }
        let before = text[..at].chars().next_back();
        let mut found = Vec::new();
        if text[at..].starts_with("use ") && before.is_none_or(|c| !is_word(c)) {
            if let Some(end) = text[at..].find(';') {
                expand(&text[at + 4..at + end], &[], &mut found);
                if inline.is_empty() {
                    bound.extend(found.iter().cloned());
                }
                let declaration = text[..at].rfind([';', '{', '}']).map_or(0, |end| end + 1);
                if text[declaration..at].contains("pub") {
                    found.retain(|(name, _)| name == "*" || uses(&own, name));
                }
            }
        } else if ["crate::", "self::", "super::"].iter().any(|s| text[at..].starts_with(s))
            && before.is_none_or(|c| !is_word(c) && c != ':')
        {
            let end = text[at..].find(|c| !is_word(c) && c != ':').map_or(text.len(), |e| at + e);
            // The groups of declarations are taken apart above.
            if !text[end..].starts_with('{') {
                expand(&text[at..end], &[], &mut found);
            }
        }
        let around = || inline.iter().map(|(name, _)| name.clone()).collect();
        out.extend(found.into_iter().map(|(_, path)| (around(), path)));
    }
    (out, bound)
}

/// The code without its `use` declarations.
fn without_declarations(code: &str) -> String {
    let (mut out, mut rest) = (String::new(), code);
    while let Some(at) = rest.find("use ") {
        let declares = rest[..at].chars().next_back().is_none_or(|c| !is_word(c));
        let end = rest[at..].find(';').filter(|_| declares).map_or(at + 4, |end| at + end);
        out.push_str(&rest[..at]);
        rest = &rest[end..];
    }
    out + rest
}

/// Whether the code has this word.
fn uses(code: &str, name: &str) -> bool {
    code.match_indices(name).any(|(at, _)| {
        let ends = code[at + name.len()..].chars().next().is_none_or(|c| !is_word(c));
        ends && code[..at].chars().next_back().is_none_or(|c| !is_word(c))
    })
}

/// Takes `a::{b, c::{d as e, self}}` apart: each path with the name that it binds.
fn expand(tree: &str, before: &[String], out: &mut Bound) {
    let (head, group) = match tree.find('{') {
        Some(open) => (&tree[..open], Some(&tree[open + 1..tree.rfind('}').unwrap_or(open + 1)])),
        None => (tree.split(" as ").next().unwrap_or_default(), None),
    };
    let mut path = before.to_vec();
    path.extend(head.split("::").map(|s| s.trim().to_owned()).filter(|s| !s.is_empty()));
    let Some(group) = group else {
        // `a::{self}` names `a`.
        if !before.is_empty() && path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        let last = path.last().cloned().unwrap_or_default();
        let name = tree.split(" as ").nth(1).map_or(last, |name| name.trim().to_owned());
        return out.push((name, path));
    };
    let (mut depth, mut start) = (0, 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&group[start..at], &path, out);
                start = at + 1;
            }
            _ => {}
        }
    }
    if !group[start..].trim().is_empty() {
        expand(&group[start..], &path, out);
    }
}
