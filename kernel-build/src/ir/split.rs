//! Splits a marked module into one module for each kernel.
//!
//! A kernel's module has the kernel and what it reaches, a function behind those that it calls. So the code of a kernel
//! depends on that kernel alone. In rustc's module it would not: the optimiser's choices depend a little on the order of
//! the functions, and rustc sorts those of other crates by their names, which have a hash of each crate's origin.
//! Small modules are also optimised side by side, and one that has not changed need not be optimised again.

use std::collections::{HashMap, HashSet};

/// The items of a module.
pub(crate) struct Items<'a> {
    all: Vec<Item<'a>>,
    by_name: HashMap<&'a str, usize>,
    /// The lists of globals to keep.
    lists: Vec<&'a str>,
}

/// What stands at the top of a module: a line, or a function with its body.
struct Item<'a> {
    text: &'a str,
    /// The function or variable that it defines or declares, if it is one.
    name: Option<&'a str>,
    is_entry: bool,
}

/// A kernel's module.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct KernelIr<'a> {
    /// The text.
    pub text: String,
    /// The kernel, behind other kernels that it names.
    pub entries: Vec<&'a str>,
}

impl<'a> Items<'a> {
    /// Reads a module as LLVM and [`super::mark`] write it: a function's body ends with a line of one brace.
    pub fn of(module: &'a str) -> Self {
        let (mut items, mut by_name, mut lists) = (Vec::new(), HashMap::new(), Vec::new());
        let mut at = 0;
        while at < module.len() {
            let rest = &module[at..];
            let line_end = rest.find('\n').unwrap_or(rest.len());
            let line = &rest[..line_end];
            let is_function = line.starts_with("define ");
            let end = if is_function {
                rest.find("\n}\n").map_or(rest.len(), |end| end + 2)
            } else {
                line_end
            };
            at += end + 1;
            if line.trim().is_empty() || line.starts_with(';') {
                continue;
            }
            // What these lists name may be used by assembly alone, which the IR does not show.
            if line.starts_with("@llvm.used ") || line.starts_with("@llvm.compiler.used ") {
                lists.push(line);
                continue;
            }
            let is_named = is_function || line.starts_with('@') || line.starts_with("declare ");
            let name = if is_named { globals(line).next() } else { None };
            if let Some(name) = name {
                by_name.insert(name, items.len());
            }
            let before_name = line.split('@').next().unwrap_or_default();
            let is_entry = is_function && before_name.split(' ').any(|word| word == "ptx_kernel");
            items.push(Item { text: &rest[..end.min(rest.len())], name, is_entry });
        }
        Self { all: items, by_name, lists }
    }

    /// The module of a kernel.
    pub fn kernel(&self, kernel: &'a str) -> KernelIr<'a> {
        let of_module = self.all.iter().filter(|item| item.name.is_none());
        let mut parts: Vec<&str> = of_module.map(|item| item.text).collect();
        let mut entries = Vec::new();
        let (mut seen, mut open) = (HashSet::new(), vec![(kernel, false)]);
        // The name of a list is its first one.
        let used = self.lists.iter().flat_map(|list| globals(list).skip(1));
        open.extend(used.map(|name| (name, false)));
        while let Some((name, is_reached)) = open.pop() {
            let Some(item) = self.by_name.get(name).map(|&i| &self.all[i]) else { continue };
            if is_reached {
                parts.push(item.text);
                if item.is_entry {
                    entries.push(name.trim_matches('"'));
                }
            } else if seen.insert(name) {
                open.push((name, true));
                let before = open.len();
                open.extend(globals(item.text).map(|name| (name, false)));
                // The first one is popped first.
                open[before..].reverse();
            }
        }
        parts.extend(&self.lists);
        KernelIr { text: parts.join("\n") + "\n", entries }
    }
}

/// The names behind each `@` of a text, quotes included. A string may look as if it named something; then a module
/// has an item too many.
fn globals(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices('@').filter_map(|(at, _)| {
        let rest = &text[at + 1..];
        let end = match rest.strip_prefix('"') {
            Some(quoted) => quoted.find('"')? + 2,
            None => rest
                .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '$' | '.' | '_')))
                .unwrap_or(rest.len()),
        };
        (end > 0).then(|| &rest[..end])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "target triple = \"nvptx64\"\n%T = type { i32 }\n";
    const REST: &str = "\n; a comment\n@v = global i32 0\n@table = constant [2 x ptr] [ptr @b, ptr @\"odd name\"]\n@llvm.used = appending \
                        global [1 x ptr] [ptr @v]\ndefine void @a() #0 {\n  call void @c()\n  ret void\n}\n\ndefine \
                        void @b() {\n  ret void\n}\ndefine internal void @\"odd name\"() {\n  ret void\n}\ndeclare \
                        void @c()\ndefine ptx_kernel void @k1() {\n  load ptr, ptr @table\n  call void @a()\n  ret \
                        void\n}\ndefine ptx_kernel void @k2() {\n  call void @a(ptr @k1)\n}\nattributes #0 = { \
                        nounwind }\n";

    /// The first line of each named item.
    fn order(kernel: &KernelIr) -> Vec<String> {
        let tops = |line: &&str| ["@", "define", "declare"].iter().any(|top| line.starts_with(top));
        let first = |line: &str| globals(line).next().unwrap_or_default().to_owned();
        kernel.text.lines().filter(tops).map(first).collect()
    }

    #[test]
    fn a_kernel_has_what_it_reaches_before_it() {
        let text = format!("{HEAD}{REST}");
        let items = Items::of(&text);
        let k1 = items.kernel("k1");
        assert_eq!(order(&k1), ["v", "b", "\"odd name\"", "table", "c", "a", "k1", "llvm.used"]);
        assert_eq!(k1.entries, ["k1"]);
        assert!(k1.text.starts_with(HEAD) && k1.text.contains("attributes #0"), "{}", k1.text);
        assert!(!k1.text.contains("comment"), "{}", k1.text);
        let k2 = items.kernel("k2");
        assert_eq!(
            order(&k2),
            ["v", "c", "a", "b", "\"odd name\"", "table", "k1", "k2", "llvm.used"]
        );
        assert_eq!(k2.entries, ["k1", "k2"]);
    }

    #[test]
    fn the_order_of_the_input_does_not_matter() {
        let text = format!("{HEAD}{REST}");
        let all = Items::of(&text);
        let mut other = Items::of(&text);
        other.all.reverse();
        other.by_name =
            (other.all.iter().enumerate()).filter_map(|(i, item)| Some((item.name?, i))).collect();
        assert_eq!(order(&other.kernel("k1")), order(&all.kernel("k1")));
    }
}
