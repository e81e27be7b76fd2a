//! Which source file imports which, and the cycles among them.
//!
//! The graph is read from the text of a crate's source folder: `use` declarations, and paths that
//! begin with `crate::`, `self::` or `super::`. It needs no compiler, and knows nothing of macros.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A module's path: `crate::a::b` is `["a", "b"]`. Each has a file of its own.
pub type Module = Vec<String>;

/// The modules that each module names.
pub type Graph = BTreeMap<Module, BTreeSet<Module>>;

/// Reads the graph of a source folder, which holds `lib.rs` or `main.rs`.
pub fn import_graph(source: &Path) -> Graph {
    let mut files = BTreeMap::new();
    collect(source, &mut Vec::new(), &mut files);
    let imports = |module: &Module, text: &String| {
        let paths = paths(&without_comments(text));
        let named = paths.into_iter().filter_map(|path| resolve(&path, module, &files));
        named.filter(|named| named != module).collect()
    };
    files.iter().map(|(module, text)| (module.clone(), imports(module, text))).collect()
}

/// The sets of modules that can reach each other, largest first; modules in no cycle are left out.
pub fn cycles(graph: &Graph) -> Vec<Vec<Module>> {
    let reach: BTreeMap<&Module, BTreeSet<&Module>> =
        graph.keys().map(|module| (module, reachable(graph, module))).collect();
    let mut found: BTreeSet<Vec<Module>> = BTreeSet::new();
    for (module, to) in &reach {
        let cycle = to.iter().filter(|other| reach[**other].contains(module));
        let cycle: Vec<Module> = cycle.map(|other| (*other).clone()).collect();
        if !cycle.is_empty() {
            found.insert(cycle);
        }
    }
    let mut found: Vec<_> = found.into_iter().collect();
    found.sort_by_key(|cycle| std::cmp::Reverse(cycle.len()));
    found
}

fn reachable<'a>(graph: &'a Graph, from: &'a Module) -> BTreeSet<&'a Module> {
    let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(module) = next.pop() {
        next.extend(graph[module].iter().filter(|to| seen.insert(*to)));
    }
    seen
}

fn collect(folder: &Path, module: &mut Module, files: &mut BTreeMap<Module, String>) {
    let entries = fs::read_dir(folder).expect("a source folder");
    for path in entries.map(|entry| entry.expect("a folder's entry").path()) {
        let name = path.file_stem().and_then(|name| name.to_str()).expect("a name in UTF-8");
        let mut of = module.clone();
        if path.is_dir() {
            of.push(name.to_owned());
            collect(&path, &mut of, files);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let root = module.is_empty() && matches!(name, "lib" | "main");
            if !root && name != "mod" {
                of.push(name.to_owned());
            }
            files.insert(of, fs::read_to_string(&path).expect("a source file"));
        }
    }
}

fn without_comments(text: &str) -> String {
    let code = |line: &str| line.split("//").next().unwrap_or_default().to_owned();
    text.lines().map(code).collect::<Vec<_>>().join("\n")
}

/// The paths that a text names, each with what it starts with.
fn paths(text: &str) -> Vec<Vec<String>> {
    let mut out = Vec::new();
    let word = |c: char| c.is_alphanumeric() || c == '_';
    for (at, _) in text.match_indices("use ") {
        let declares = text[..at].chars().next_back().is_none_or(|c| !word(c));
        if let (true, Some(end)) = (declares, text[at..].find(';')) {
            expand(&text[at + 4..at + end], &[], &mut out);
        }
    }
    for start in ["crate::", "self::", "super::"] {
        for (at, _) in text.match_indices(start) {
            let fresh = text[..at].chars().next_back().is_none_or(|c| !word(c) && c != ':');
            let end = text[at..].find(|c| !word(c) && c != ':').map_or(text.len(), |e| at + e);
            // The groups of declarations are taken apart above.
            if fresh && !text[end..].starts_with('{') {
                expand(&text[at..end], &[], &mut out);
            }
        }
    }
    out
}

/// Takes `a::{b, c::{d, e}}` apart.
fn expand(tree: &str, before: &[String], out: &mut Vec<Vec<String>>) {
    let (head, group) = match tree.find('{') {
        Some(open) => (&tree[..open], Some(&tree[open + 1..tree.rfind('}').unwrap_or(open + 1)])),
        None => (tree.split(" as ").next().unwrap_or_default(), None),
    };
    let mut path = before.to_vec();
    path.extend(head.split("::").map(|s| s.trim().to_owned()).filter(|s| !s.is_empty()));
    let Some(group) = group else { return out.push(path) };
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

/// The module whose file holds what a path names, if that is one of the crate's.
fn resolve(path: &[String], module: &Module, files: &BTreeMap<Module, String>) -> Option<Module> {
    let mut rest = path;
    let mut at = match rest.first()?.as_str() {
        "crate" => {
            rest = &rest[1..];
            Module::new()
        }
        "self" | "super" => module.clone(),
        child => {
            let mut below = module.clone();
            below.push(child.to_owned());
            files.contains_key(&below).then(|| module.clone())?
        }
    };
    while let Some("self" | "super") = rest.first().map(String::as_str) {
        if rest[0] == "super" {
            at.pop();
        }
        rest = &rest[1..];
    }
    at.extend(rest.iter().cloned());
    // What follows the module's path names an item in it.
    while !files.contains_key(&at) {
        at.pop()?;
    }
    Some(at)
}

/// Modules of a cycle, at most: what has one subject, in a few files that need each other.
const LARGEST: usize = 4;

#[test]
fn the_models_imports_point_one_way() {
    let graph = import_graph(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert!(graph.len() > 100, "{} files", graph.len());
    let write = |cycle: &Vec<Module>| {
        cycle.iter().map(|module| module.join("::")).collect::<Vec<_>>().join(", ")
    };
    let large: Vec<String> =
        cycles(&graph).iter().filter(|cycle| cycle.len() > LARGEST).map(write).collect();
    assert!(large.is_empty(), "modules that import each other: {large:#?}");
}

/// The model's layers from the bottom up, by the first name of a module's path.
const LAYERS: [&[&str]; 9] = [
    &["types", "finding"],
    &["memory", "barrier", "copy", "warp", "wgmma", "cluster"],
    &["race", "trace", "walk", "schedule"],
    &["config"],
    &["engine"],
    &["exec"],
    &["drive"],
    &["explore"],
    &["ops"],
];

#[test]
fn no_layer_of_the_model_imports_one_above_it() {
    let graph = import_graph(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let layer = |module: &Module| {
        let at = LAYERS.iter().position(|names| names.contains(&module[0].as_str()));
        at.unwrap_or_else(|| panic!("{} has no layer", module[0]))
    };
    for (module, imports) in graph.iter().filter(|(module, _)| !module.is_empty()) {
        for import in imports {
            let (from, to) = (module.join("::"), import.join("::"));
            assert!(!import.is_empty(), "{from} imports from the crate's root");
            assert!(layer(import) <= layer(module), "{from} imports {to} from above");
        }
    }
}

#[test]
fn paths_are_taken_apart_and_cycles_found() {
    let joined = |text: &str| {
        let mut all: Vec<_> = paths(text).iter().map(|path| path.join("::")).collect();
        all.sort();
        all
    };
    let text = "pub(crate) use super::{a, b::{C, d as e}}; let x = crate::f::g(1); because;";
    assert_eq!(joined(text), ["crate::f::g", "super::a", "super::b::C", "super::b::d"]);
    let module = |name: &str| vec![name.to_owned()];
    let edges = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("e", "a")];
    let mut graph = Graph::new();
    for (from, to) in edges {
        graph.entry(module(from)).or_default().insert(module(to));
        graph.entry(module(to)).or_default();
    }
    assert_eq!(cycles(&graph), [vec![module("a"), module("b"), module("c")]]);
}
