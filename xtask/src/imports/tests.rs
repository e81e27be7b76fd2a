use super::*;

/// Files of the largest circle of imports that each crate may have: 1 means none. A circle holds one
/// subject, in a few files that need each other.
const LARGEST: [(&str, usize); 10] = [
    ("isa/src", 3),
    ("pipeline/src", 4),
    ("gpu-kernels/src", 1),
    ("host/src", 4),
    ("bench/src", 1),
    ("macros/src", 1),
    ("kernel-build/src", 2),
    ("sim/src", 1),
    ("xtask/src", 3),
    ("src", 2),
];

/// A module's path as it is written, with `crate` for the root file.
fn name(module: &Module) -> String {
    if module.is_empty() { "crate".to_owned() } else { module.join("::") }
}

fn graph(source: &str) -> Graph {
    import_graph(&crate::bundle::root().join(source)).unwrap()
}

#[test]
fn imports_form_no_large_circle() {
    let mut large = Vec::new();
    for (source, most) in LARGEST {
        for circle in circles(&graph(source)).iter().filter(|circle| circle.len() > most) {
            let files: Vec<String> = circle.iter().map(name).collect();
            large.push(format!("{source}: {} files, at most {most}: {files:?}", files.len()));
        }
    }
    assert!(large.is_empty(), "files that import each other in a circle:\n{}", large.join("\n"));
}

/// The model's layers from the bottom up, by the first name of a module's path.
const LAYERS: [&[&str]; 9] = [
    &["types", "finding"],
    &["memory", "barrier", "copy", "warp", "wgmma", "tensor", "cluster", "grid"],
    &["race", "trace", "walk", "schedule", "protocol"],
    &["config"],
    &["engine"],
    &["exec"],
    &["drive"],
    &["explore", "certify"],
    &["ops"],
];

#[test]
fn no_layer_of_the_model_imports_one_above_it() {
    let graph = graph("sim/src");
    assert!(graph.len() > 100, "{} files", graph.len());
    let layer = |module: &Module| {
        let at = LAYERS.iter().position(|names| names.contains(&module[0].as_str()));
        at.unwrap_or_else(|| panic!("{} has no layer", module[0]))
    };
    for (module, imports) in graph.iter().filter(|(module, _)| !module.is_empty()) {
        for import in imports {
            let (from, to) = (name(module), name(import));
            assert!(!import.is_empty(), "{from} imports from the crate's root");
            assert!(layer(import) <= layer(module), "{from} imports {to} from above");
        }
    }
}

fn module(path: &str) -> Module {
    path.split("::").filter(|name| *name != "crate").map(str::to_owned).collect()
}

/// The modules that a module imports, of files given by module and text.
fn imports(files: &[(&str, &str)], of: &str) -> Vec<String> {
    let files = files.iter().map(|(path, text)| (module(path), (*text).to_owned())).collect();
    graph_of(&files)[&module(of)].iter().map(name).collect()
}

#[test]
fn paths_lead_to_the_files_they_name() {
    let files = [
        ("crate", "mod a; mod b;"),
        ("a", "pub(crate) use super::{b::{C, d as e}}; let x = crate::b::c::f(1); because;"),
        ("b", "pub struct C; pub fn d() {}"),
        ("b::c", "pub fn f(_: u32) {}"),
    ];
    assert_eq!(imports(&files, "a"), ["b::c"]);
    let used =
        [files[0], ("a", "use super::b::{self, C}; use crate::b::c::f as g;"), files[2], files[3]];
    assert_eq!(imports(&used, "a"), ["b", "b::c"]);
}

#[test]
fn a_reexport_is_followed_and_is_no_import_by_itself() {
    let files = [
        ("folder", "mod child; mod other; pub use child::Item; pub use other::*; struct Own;"),
        ("folder::child", "use super::Own; pub struct Item;"),
        ("folder::other", "pub const ALL: u32 = 1;"),
        ("user", "use crate::folder::{ALL, Item};"),
        ("crate", "mod folder; mod user;"),
    ];
    assert_eq!(imports(&files, "user"), ["folder::child", "folder::other"]);
    assert_eq!(imports(&files, "folder"), ["folder::other"]);
    assert_eq!(imports(&files, "folder::child"), ["folder"]);
    let uses = [("folder", "pub use child::Item; fn f(_: Item) {}"), files[1]];
    assert_eq!(imports(&uses, "folder"), ["folder::child"]);
}

#[test]
fn inline_modules_comments_and_strings_are_no_imports() {
    let files = [
        ("a", "mod tests { use super::*; mod deep { use super::super::X; } } // crate::b::Y"),
        ("b", "const S: &str = \"crate::a::X\"; const R: &str = r#\"\" crate::a::X\"#; '\"'; '{'"),
    ];
    assert_eq!(imports(&files, "a"), [""; 0]);
    assert_eq!(imports(&files, "b"), [""; 0]);
}

#[test]
fn circles_are_found() {
    let mut graph = Graph::new();
    for (from, to) in [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("e", "a")] {
        graph.entry(module(from)).or_default().insert(module(to));
        graph.entry(module(to)).or_default();
    }
    assert_eq!(circles(&graph), [vec![module("a"), module("b"), module("c")]]);
}
