//! `warpipe new`: writes a project of the user's own.

mod name;
mod templates;

use crate::error::Error;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use templates::{ALL, Template, Values};

/// Options of `warpipe new`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Folder of the project, new or empty; its last part is the name of the package
    #[arg(value_name = "NAME", required_unless_present = "list")]
    folder: Option<PathBuf>,
    /// What the project starts from; --list describes the templates
    #[arg(long, value_name = "TEMPLATE", default_value = ALL[0].name)]
    template: String,
    /// List the templates, and write nothing
    #[arg(long, conflicts_with_all = ["folder", "path", "git"])]
    list: bool,
    /// Take warpipe from this checkout instead of the published version
    #[arg(long, value_name = "DIR", conflicts_with = "git")]
    path: Option<PathBuf>,
    /// Take warpipe from this git repository instead of the published version
    #[arg(long, value_name = "URL")]
    git: Option<String>,
    /// Commit, tag or branch of the git repository
    #[arg(long, value_name = "REV", requires = "git")]
    rev: Option<String>,
}

/// Writes the project, or lists the templates.
pub fn run(args: &Args) -> Result<(), Error> {
    let Some(folder) = &args.folder else {
        let lines = ALL.iter().map(|template| format!("{:14} {}", template.name, template.about));
        return crate::say(&lines.collect::<Vec<_>>().join("\n"));
    };
    let name = folder.file_name().ok_or_else(|| {
        Error::Usage(format!("{}: expected a path that ends in a name", folder.display()))
    })?;
    let name = name.to_string_lossy();
    name::check(&name).map_err(Error::Usage)?;
    let template = find(&args.template)?;
    let (warpipe, kernel_build) = source(args)?;
    let values = Values { name: &name, warpipe: &warpipe, kernel_build: &kernel_build };
    let files = template.render(&values);
    let is_new = check_folder(folder)?;
    if let Err(error) = write(folder, &files) {
        remove(folder, &files, is_new);
        return Err(error);
    }
    crate::say(&format!(
        "{}: {} files from the template {} ({})\n\n    cd {0}\n    cargo run     # on a GPU, or on the SM model if \
         there is none\n    cargo test    # under many schedules, on the SM model\n\nREADME.md says what to change first.",
        folder.display(),
        files.len(),
        template.name,
        template.about,
    ))
}

/// The template of that name.
fn find(name: &str) -> Result<&'static Template, Error> {
    ALL.iter().find(|template| template.name == name).ok_or_else(|| {
        let names: Vec<_> = ALL.iter().map(|template| template.name).collect();
        Error::Usage(format!("no template {name:?}; there are {}", names.join(", ")))
    })
}

/// Where `warpipe` and `warpipe-kernel-build` come from, as in a table of dependencies.
fn source(args: &Args) -> Result<(String, String), Error> {
    // A string of JSON is one of TOML, too.
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    if let Some(checkout) = &args.path {
        let build = checkout.join("kernel-build");
        if !build.join("Cargo.toml").is_file() {
            let file = build.join("Cargo.toml");
            return Err(Error::Usage(format!(
                "--path {}: not a checkout of warpipe: there is no {}",
                checkout.display(),
                file.display()
            )));
        }
        let path = |folder: &Path| {
            let whole = folder
                .canonicalize()
                .map_err(|source| Error::Open { file: folder.into(), source })?;
            let text = whole.to_str().ok_or_else(|| {
                Error::Usage(format!("--path {}: a manifest can hold only UTF-8", whole.display()))
            })?;
            Ok::<_, Error>(format!("path = {}", quoted(text)))
        };
        return Ok((path(checkout)?, path(&build)?));
    }
    let text = match (&args.git, &args.rev) {
        (Some(url), _) if url.trim().is_empty() => {
            return Err(Error::Usage("--git: expected the URL of a repository".to_owned()));
        }
        (Some(url), Some(rev)) => format!("git = {}, rev = {}", quoted(url), quoted(rev)),
        (Some(url), None) => format!("git = {}", quoted(url)),
        _ => concat!(
            "version = \"",
            env!("CARGO_PKG_VERSION_MAJOR"),
            ".",
            env!("CARGO_PKG_VERSION_MINOR"),
            "\""
        )
        .to_owned(),
    };
    Ok((text.clone(), text))
}

/// Checks that nothing would be overwritten, and returns whether the folder is still to be made.
fn check_folder(folder: &Path) -> Result<bool, Error> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            let file = folder.ancestors().find(|path| path.is_file()).unwrap_or(folder);
            return Err(Error::Usage(format!("{}: exists, and is not a folder", file.display())));
        }
        Err(source) => return Err(Error::Open { file: folder.into(), source }),
        Ok(entries) => entries,
    };
    match entries.count() {
        0 => Ok(false),
        entries => Err(Error::Usage(format!(
            "{}: the folder has {entries} {}; expected a new or an empty folder",
            folder.display(),
            if entries == 1 { "entry" } else { "entries" }
        ))),
    }
}

fn write(folder: &Path, files: &[(PathBuf, String)]) -> Result<(), Error> {
    for (path, text) in files {
        let file = folder.join(path);
        let folder = file.parent().unwrap_or(folder);
        let done = fs::create_dir_all(folder).and_then(|()| fs::write(&file, text));
        done.map_err(|error| Error::Output { file, reason: error.to_string() })?;
    }
    Ok(())
}

/// Takes back what [`write()`] has written before it failed. A folder that has something else in it stays.
fn remove(folder: &Path, files: &[(PathBuf, String)], is_new: bool) {
    for (path, _) in files {
        let _ = fs::remove_file(folder.join(path));
        for part in path.ancestors().skip(1).filter(|part| *part != Path::new("")) {
            let _ = fs::remove_dir(folder.join(part));
        }
    }
    if is_new {
        let _ = fs::remove_dir(folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file is in the way of a folder that comes later.
    #[test]
    fn a_failure_takes_back_what_was_written() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("new");
        let file = |path: &str| (PathBuf::from(path), String::new());
        let files = [file("a/b/one"), file("two"), file("a/b/one/three")];
        let error = write(&folder, &files).unwrap_err().to_string();
        assert!(error.starts_with("cannot write ") && error.contains("three"), "{error}");
        assert!(folder.join("a/b/one").is_file());
        remove(&folder, &files, true);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
