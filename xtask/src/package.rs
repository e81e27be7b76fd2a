//! The packages: the `.crate` files of every package that can be published, and a test of them.
//!
//! ```text
//! target/package/stage/        a copy of the repository, with what only packages have:
//!   prebuilt/                  the compiled kernels, which warpipe embeds
//!   */LICENSE-*                the licences, in each package
//! target/package/*.crate       what `cargo package` makes of it
//! ```
//! The unpacked files, and the projects of `tests/packaged` that use them, are in a temporary folder.

mod image;
mod scratch;
pub mod stage;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

/// The folders of the packages that are published, from the one without dependencies to the one that needs all.
pub const FOLDERS: [&str; 11] = [
    "sim",
    "macros",
    "isa",
    "pipeline",
    "gpu-kernels",
    "kernel-build",
    "inspect",
    "host",
    ".",
    "bench",
    "cli",
];

/// An error of the packages.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("unknown option {given}; there is {known}")]
    Option { given: String, known: &'static str },
    #[error("{command} failed: {what}")]
    Command { command: String, what: String },
    #[error("{action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error(transparent)]
    Kernels(#[from] kernel_build::Error),
    #[error(
        "the kernel {0} belongs to no feature of warpipe; xtask/src/package/image.rs lists them"
    )]
    Feature(String),
    #[error("{0}")]
    Wrong(String),
}

impl Error {
    /// For `map_err`: adds the operation and the path.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}

/// Makes the `.crate` files; with `--try`, also uses them in projects outside of the repository. The test that does is
/// built with the features that follow, so that one with others need not be.
pub fn run(options: &[&str]) -> Result<(), Error> {
    let known = "--try, and behind it --features LIST";
    let features = match options {
        [] => None,
        ["--try"] => Some(""),
        ["--try", "--features", list] => Some(*list),
        ["--try", other, ..] | [other, ..] => {
            return Err(Error::Option { given: (*other).to_owned(), known });
        }
    };
    let root = crate::bundle::root();
    let out = root.join("target/package");
    let stage = out.join("stage");
    if stage.exists() {
        fs::remove_dir_all(&stage).map_err(Error::io("cannot remove", &stage))?;
    }
    let names = stage::copy(&root, &stage)?;
    image::write(&root, &stage.join("prebuilt"), &out.join("kernels"))?;
    let crates = pack(&stage, &out, &names)?;
    for file in &crates {
        let bytes = fs::metadata(file).map_err(Error::io("cannot read", file))?.len();
        println!("{} ({} KB)", file.display(), bytes / 1000);
    }
    features.map_or(Ok(()), |features| scratch::run(&root, &crates, features))
}

/// Runs `cargo package` in the copy, and moves the files to `out`.
fn pack(stage: &Path, out: &Path, names: &[String]) -> Result<Vec<PathBuf>, Error> {
    // The copy is no repository, and what is in the files is tried by the projects of tests/packaged.
    let mut cargo = cargo(stage);
    cargo.args(["package", "--no-verify", "--allow-dirty", "--target-dir"]).arg(out.join("cargo"));
    for name in names {
        cargo.args(["--package", name]);
    }
    succeed(&mut cargo)?;
    let mut files = Vec::new();
    for name in names {
        let file = format!("{name}-{}.crate", env!("CARGO_PKG_VERSION"));
        let (from, to) = (out.join("cargo/package").join(&file), out.join(&file));
        fs::copy(&from, &to).map_err(Error::io("cannot copy", &from))?;
        files.push(to);
    }
    Ok(files)
}

/// cargo as a user of `folder` runs it: without what the cargo that runs this program has set.
pub fn cargo(folder: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let kept = text == "CARGO_HOME"
            || text.starts_with("CARGO_NET_")
            || text.starts_with("CARGO_HTTP_");
        if (text.starts_with("CARGO") && !kept) || text == "RUSTFLAGS" || text == "PTXAS" {
            command.env_remove(&name);
        }
    }
    command.current_dir(folder);
    command
}

/// Runs a command that must succeed, and returns what it prints.
pub fn succeed(command: &mut Command) -> Result<String, Error> {
    let words = |command: &Command| {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    };
    let failed = |command: &Command, what| Error::Command { command: words(command), what };
    let output = command.output().map_err(|e| failed(command, e.to_string()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(failed(command, String::from_utf8_lossy(&output.stderr).trim_end().to_owned()))
}
