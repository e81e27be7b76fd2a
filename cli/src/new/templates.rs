//! The templates: files of `cli/templates`, embedded in the command.
//!
//! Every project has the files of `project`; a template adds its own. In both, `{{name}}` and the other placeholders of
//! [`Values`] are replaced. A manifest is called `Cargo.toml.in`, because cargo leaves a folder with a `Cargo.toml` out
//! of a package.

use std::path::{Path, PathBuf};

/// What a project can start from.
pub struct Template {
    /// Its name, which is also that of its folder.
    pub name: &'static str,
    /// What the project computes, in one line.
    pub about: &'static str,
    files: &'static [File],
}

/// The path in the template's folder, and the text.
type File = (&'static str, &'static str);

macro_rules! files {
    ($folder:literal: $($path:literal)*) => {
        &[$(($path, include_str!(concat!("../../templates/", $folder, "/", $path)))),*]
    };
}

/// The files of a template, which all have the same names.
macro_rules! template {
    ($name:literal, $about:literal) => {
        Template {
            name: $name,
            about: $about,
            files: files!($name: "README.md" "kernels/src/lib.rs" "src/lib.rs" "src/main.rs" "tests/kernel.rs"
                "benches/gpu.rs"),
        }
    };
}

/// All templates; the first one is the default.
pub const ALL: &[Template] = &[
    template!("copy", "y = factor * x: TMA load, ring, registers, TMA store"),
    template!(
        "attention",
        "causal attention with ALiBi: warpipe's attention with scores of your own"
    ),
    template!(
        "gemm-epilogue",
        "D = max(A * B^T + bias, 0): warpipe's GEMM with an epilogue of your own"
    ),
    template!("reduction", "sums of the rows of a matrix: TMA load, ring, two warp groups"),
];

const PROJECT: &[File] = files!("project": ".github/workflows/ci.yml" ".gitignore" "Cargo.toml.in" "build.rs"
    "kernels/Cargo.toml.in" "rust-toolchain.toml");

/// What replaces the placeholders.
pub struct Values<'a> {
    /// `{{name}}`: name of the package; `{{crate}}` is the name of its library.
    pub name: &'a str,
    /// `{{warpipe}}`: where the package `warpipe` comes from, in the words of a manifest.
    pub warpipe: &'a str,
    /// `{{kernel-build}}`: the same for `warpipe-kernel-build`.
    pub kernel_build: &'a str,
}

impl Template {
    /// The files of a new project: the path in its folder, and the text.
    pub fn render(&self, values: &Values<'_>) -> Vec<(PathBuf, String)> {
        let library = values.name.replace('-', "_");
        let replaced = |text: &str| {
            text.replace("{{name}}", values.name)
                .replace("{{crate}}", &library)
                .replace("{{warpipe}}", values.warpipe)
                .replace("{{kernel-build}}", values.kernel_build)
        };
        let path = |path: &str| Path::new(path.strip_suffix(".in").unwrap_or(path)).to_owned();
        let files = PROJECT.iter().chain(self.files);
        files.map(|(name, text)| (path(name), replaced(text))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn folder() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("templates")
    }

    /// All files below a folder, as paths in it.
    fn below(folder: &Path, prefix: &str, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let name = format!("{prefix}{}", entry.file_name().into_string().unwrap());
            if entry.file_type().unwrap().is_dir() {
                below(&entry.path(), &format!("{name}/"), found);
            } else {
                found.insert(name);
            }
        }
    }

    #[test]
    fn every_file_of_the_folder_is_embedded() {
        let mut listed: BTreeSet<String> =
            PROJECT.iter().map(|(path, _)| format!("project/{path}")).collect();
        for template in ALL {
            listed
                .extend(template.files.iter().map(|(path, _)| format!("{}/{path}", template.name)));
        }
        let mut found = BTreeSet::new();
        below(&folder(), "", &mut found);
        assert_eq!(listed, found);
    }

    #[test]
    fn no_placeholder_is_left() {
        let values = Values { name: "my-kernels", warpipe: "W", kernel_build: "K" };
        for template in ALL {
            let files = template.render(&values);
            for (path, text) in &files {
                // `${{ … }}` is GitHub's.
                let rest = text.replace("${{", "");
                assert!(!rest.contains("{{"), "{}: {}", template.name, path.display());
            }
            let text = |path: &str| &files.iter().find(|(p, _)| p == Path::new(path)).unwrap().1;
            assert!(text("Cargo.toml").contains("name = \"my-kernels\""));
            assert!(text("Cargo.toml").contains("warpipe = { W, default-features = false }"));
            assert!(text("src/lib.rs").contains("kernel_image!(\"my_kernels_kernels\")"));
        }
    }

    /// A project is built with the toolchain that this version of warpipe was tested with.
    #[test]
    fn the_toolchain_is_ours() {
        let ours = std::fs::read(folder().join("../../rust-toolchain.toml")).unwrap();
        let theirs = std::fs::read(folder().join("project/rust-toolchain.toml")).unwrap();
        assert!(
            ours == theirs,
            "cli/templates/project/rust-toolchain.toml must be the repository's"
        );
    }
}
