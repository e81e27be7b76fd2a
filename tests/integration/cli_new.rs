//! `warpipe new`: what it writes and refuses, and that each project builds, runs and passes its tests as it was written.

use crate::common::{Folder, outcome, refused, warpipe};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The templates, and a part of what `cargo run` prints without a GPU and with one.
const TEMPLATES: [(&str, &str); 4] = [
    ("copy", "y = 1.5 x, 300 x 520: equal to the CPU's, bit by bit"),
    ("attention", "causal attention with ALiBi, 300 tokens, 2 heads: "),
    ("gemm-epilogue", "D = max(A·Bᵀ + bias, 0), 300 x 520 x 200: largest relative error"),
    ("reduction", "sums of 300 rows of 520: largest relative error"),
];

const FILES: [&str; 12] = [
    ".github/workflows/ci.yml",
    ".gitignore",
    "Cargo.toml",
    "README.md",
    "benches/gpu.rs",
    "build.rs",
    "kernels/Cargo.toml",
    "kernels/src/lib.rs",
    "rust-toolchain.toml",
    "src/lib.rs",
    "src/main.rs",
    "tests/kernel.rs",
];

/// The files below a folder, as sorted paths in it.
fn below(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else {
                found.push(entry.strip_prefix(folder).unwrap().display().to_string());
            }
        }
    }
    found.sort();
    found
}

/// Writes a project, and returns what the command said.
fn written(arguments: &[&str]) -> String {
    let (code, stdout, stderr) = outcome(&warpipe([&["new"], arguments].concat()));
    assert_eq!((code, stderr.as_str()), (0, ""), "{arguments:?}");
    stdout
}

#[test]
fn the_templates_are_listed() {
    let list = written(&["--list"]);
    let names: Vec<_> = list.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(names, TEMPLATES.map(|(name, _)| name));
}

#[test]
fn copy_is_the_default_and_an_empty_folder_is_fine() {
    let folder = Folder::new();
    fs::create_dir_all(folder.path("a/project-a")).unwrap();
    let said = written(&[&folder.arg("a/project-a")]);
    assert!(said.contains("12 files from the template copy"), "{said}");
    assert_eq!(below(&folder.path("a/project-a")), FILES);
    // Parents are made.
    written(&[&folder.arg("b/c/project-b"), "--template", "copy"]);
    for file in FILES {
        let text = |name: &str| fs::read_to_string(folder.path(name).join(file)).unwrap();
        assert_eq!(
            text("a/project-a").replace("project-a", "project-b").replace("project_a", "project_b"),
            text("b/c/project-b"),
            "{file}"
        );
    }
}

#[test]
fn warpipe_comes_from_where_the_options_say() {
    let folder = Folder::new();
    let source = |name: &str, options: &[&str]| {
        written(&[&[folder.arg(name).as_str()], options].concat());
        let manifest = fs::read_to_string(folder.path(name).join("Cargo.toml")).unwrap();
        let lines =
            manifest.lines().filter(|line| line.starts_with("warpipe") && line.contains('{'));
        lines.take(2).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        source("published", &[]),
        [
            "warpipe = { version = \"0.1\", default-features = false }",
            "warpipe-kernel-build = { version = \"0.1\" }"
        ]
    );
    assert_eq!(
        source("git", &["--git", "https://example.com/w\"x", "--rev", "v1"])[1],
        r#"warpipe-kernel-build = { git = "https://example.com/w\"x", rev = "v1" }"#
    );
    folder.dir("checkout/kernel-build");
    folder.bytes("checkout/kernel-build/Cargo.toml", b"");
    let checkout = folder.path("checkout").canonicalize().unwrap();
    assert_eq!(
        source("path", &["--path", &folder.arg("git/../checkout")]),
        [
            format!("warpipe = {{ path = {checkout:?}, default-features = false }}"),
            format!("warpipe-kernel-build = {{ path = {:?} }}", checkout.join("kernel-build"))
        ]
    );
}

#[test]
fn what_is_refused_leaves_nothing_behind() {
    let folder = Folder::new();
    folder.dir("full");
    folder.bytes("full/notes", b"mine");
    folder.bytes("file", b"mine");
    let before = folder.list();
    let refuses = |arguments: &[&str], words: &[&str]| {
        refused(&[&["new"], arguments].concat(), words);
        assert_eq!(folder.list(), before, "{arguments:?}");
        assert_eq!(below(&folder.path("full")), ["notes"]);
        assert_eq!(fs::read(folder.path("file")).unwrap(), b"mine");
    };
    refuses(&[&folder.arg("full")], &["full", "1 entry", "expected a new or an empty folder"]);
    refuses(&[&folder.arg("file")], &["file", "not a folder"]);
    refuses(&[&folder.arg("file/new")], &["file: exists, and is not a folder"]);
    for (name, why) in [
        ("My-Kernels", "lower-case"),
        ("2fast", "a letter first"),
        ("a b", "lower-case"),
        ("match", "keyword"),
        ("test", "cargo or Rust"),
        ("kernels", "kernel crate"),
        ("warpipe", "own packages"),
        ("..", "ends in a name"),
    ] {
        refuses(&[&folder.arg(name)], &[name, why]);
    }
    let new = folder.arg("new");
    refuses(&[], &["NAME"]);
    refuses(
        &[&new, "--template", "softmax"],
        &["softmax", "copy, attention, gemm-epilogue, reduction"],
    );
    refuses(&[&new, "--path", &folder.arg("full")], &["not a checkout of warpipe", "kernel-build"]);
    refuses(&[&new, "--path", "x", "--git", "y"], &["--path", "--git"]);
    refuses(&[&new, "--rev", "v1"], &["--git"]);
    refuses(&[&new, "--git", ""], &["--git", "URL"]);
    refuses(&[&new, "--list"], &["--list"]);
}

/// The packages that the projects are built with: `WARPIPE_PACKAGES` names a folder with unpacked packages
/// (`warpipe-0.1.0`, …); without it, they are those of the repository.
fn packages() -> Vec<(String, PathBuf)> {
    let Some(folder) = env::var_os("WARPIPE_PACKAGES") else {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
        return vec![
            ("warpipe-kernel-build".to_owned(), root.join("kernel-build")),
            ("warpipe".to_owned(), root),
        ];
    };
    let entries = fs::read_dir(&folder).expect("the folder of WARPIPE_PACKAGES");
    let packages: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|folder| folder.join("Cargo.toml").is_file())
        .map(|folder| {
            let name = folder.file_name().unwrap().to_str().unwrap();
            let (name, _version) = name.rsplit_once('-').expect("NAME-VERSION");
            (name.to_owned(), folder.canonicalize().unwrap())
        })
        .collect();
    assert!(
        packages.iter().any(|(name, _)| name == "warpipe"),
        "no warpipe in {}",
        folder.display()
    );
    packages
}

/// A folder whose projects get warpipe from [`packages`] instead of a registry. Their files stay as they are written:
/// cargo reads its configuration from the folders above a project.
struct Workshop {
    dir: PathBuf,
}

impl Workshop {
    fn new() -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("new");
        for (template, _) in TEMPLATES {
            let _ = fs::remove_dir_all(dir.join(Self::name(template)));
        }
        let mut config = "[patch.crates-io]\n".to_owned();
        for (name, path) in packages() {
            let path = serde_json::Value::from(path.to_str().expect("UTF-8"));
            writeln!(config, "{name} = {{ path = {path} }}").unwrap();
        }
        fs::create_dir_all(dir.join(".cargo")).unwrap();
        fs::write(dir.join(".cargo/config.toml"), config).unwrap();
        // rustfmt's defaults, not what this repository prefers, which lies further above.
        fs::write(dir.join("rustfmt.toml"), "").unwrap();
        Self { dir }
    }

    fn name(template: &str) -> String {
        format!("my-{template}")
    }

    /// Runs cargo in a project, and returns what it printed on both outputs.
    fn cargo(&self, template: &str, arguments: &[&str]) -> String {
        let mut cargo =
            Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
        for variable in ["RUSTFLAGS", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER"] {
            cargo.env_remove(variable);
        }
        // One folder for all, which is kept.
        cargo.env("CARGO_TARGET_DIR", self.dir.join("target")).env("CARGO_TERM_COLOR", "never");
        cargo.current_dir(self.dir.join(Self::name(template))).args(arguments);
        let output = cargo.output().expect("cargo starts");
        let text =
            [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        assert!(output.status.success(), "{template}: cargo {arguments:?}:\n{text}");
        text
    }
}

#[test]
fn every_project_runs_and_passes_its_tests_as_it_was_written() {
    if env::var_os("WARPIPE_BIN").is_some() {
        eprintln!("skipped: there is no cargo where a bundle runs");
        return;
    }
    let workshop = Workshop::new();
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.lock");
    for (template, result) in TEMPLATES {
        let project = workshop.dir.join(Workshop::name(template));
        written(&[project.to_str().unwrap(), "--template", template]);
        let before: Vec<_> = FILES.map(|file| fs::read(project.join(file)).unwrap()).into();
        // The same versions as here, so that nothing is looked up.
        fs::copy(&lock, project.join("Cargo.lock")).unwrap();

        workshop.cargo(template, &["fmt", "--all", "--check"]);
        let said = workshop.cargo(template, &["run", "--offline"]);
        assert!(said.contains(result), "{said}");
        let said = workshop.cargo(template, &["test", "--offline"]);
        assert!(said.contains("test right_under_every_schedule ... ok"), "{said}");
        // With the profile of the tests, so that nothing is compiled twice.
        let said = workshop.cargo(template, &["bench", "--offline", "--profile", "dev"]);
        assert!(said.contains("no benchmark without a GPU") || said.contains("µs"), "{said}");

        let after: Vec<_> = FILES.map(|file| fs::read(project.join(file)).unwrap()).into();
        assert!(before == after, "{template}: cargo changed a file");
    }
}

/// docs/new-project.md names every file and every template.
#[test]
fn the_page_is_complete() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/new-project.md");
    let Ok(text) = fs::read_to_string(&page) else {
        eprintln!("skipped: {} is not on this machine", page.display());
        return;
    };
    for file in FILES {
        assert!(text.contains(&format!("| `{file}` |")), "{file}");
    }
    for (template, _) in TEMPLATES {
        assert!(
            text.contains(&format!("| [`{template}`](../cli/templates/{template})")),
            "{template}"
        );
    }
}
