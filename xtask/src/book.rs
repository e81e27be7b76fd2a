//! The documentation: its snippets, its links, its table of contents, and the book that mdBook makes of it.
//!
//! A page shows code that is also compiled: the comment above a block names the source, and the block equals it. So a
//! page reads well wherever Markdown is shown, and can't be out of date.

mod links;
mod snippets;
mod stage;
mod summary;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};

/// Why the documentation does not hold.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file can't be read or written, or a program can't be started.
    #[error("{0}: {1}")]
    Io(String, std::io::Error),
    /// What is wrong, one line each.
    #[error("{}", .0.join("\n"))]
    Findings(Vec<String>),
    /// mdBook has failed, or is not there.
    #[error("{0}")]
    MdBook(String),
}

/// A page, as it is in the repository.
pub struct Page {
    /// Its path from the repository's root, with `/`.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// Checks all pages. With `write`, first writes the blocks that differ from their sources.
///
/// # Errors
/// [`Error::Findings`] with a line for each mistake.
pub fn run(root: &Path, write: bool) -> Result<(), Error> {
    if write {
        for page in pages(root)? {
            let written = snippets::written(root, &page);
            if written != page.text {
                println!("{}", page.path);
                save(&root.join(&page.path), &written)?;
            }
        }
    }
    let pages = pages(root)?;
    let mut findings = summary::check(&pages);
    for page in &pages {
        findings.extend(snippets::check(root, page));
        findings.extend(links::check(root, page));
    }
    if findings.is_empty() { Ok(()) } else { Err(Error::Findings(findings)) }
}

/// Builds the book into `target/book/html`, after the checks, and then checks the links of the built pages.
///
/// # Errors
/// Those of [`run`]; [`Error::MdBook`].
pub fn build(root: &Path) -> Result<(), Error> {
    run(root, false)?;
    let html = stage::build(root, &pages(root)?)?;
    println!("{}", html.join("index.html").display());
    Ok(())
}

/// The pages: those of docs/, and the ones beside the code.
fn pages(root: &Path) -> Result<Vec<Page>, Error> {
    const OTHERS: [&str; 4] = ["CHANGELOG.md", "CONTRIBUTING.md", "README.md", "sim/README.md"];
    let docs = root.join("docs");
    let mut paths: Vec<String> = OTHERS.map(String::from).into();
    for entry in fs::read_dir(&docs).map_err(io(&docs))? {
        let name = entry.map_err(io(&docs))?.file_name().to_string_lossy().into_owned();
        if is_markdown(&name) {
            paths.push(format!("docs/{name}"));
        }
    }
    paths.sort();
    let read = |path: String| {
        let text = load(&root.join(&path))?;
        Ok(Page { path, text })
    };
    paths.into_iter().map(read).collect()
}

/// The path of `target`, which a page in the folder `from` names; `None` if it leaves the repository.
fn resolved(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Whether a path is that of a page.
fn is_markdown(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|end| end == "md")
}

/// The folder of a page, `""` for the root.
fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn load(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(io(path))
}

fn save(path: &Path, text: &str) -> Result<(), Error> {
    let folder: PathBuf = path.parent().map(Into::into).unwrap_or_default();
    fs::create_dir_all(&folder).map_err(io(&folder))?;
    fs::write(path, text).map_err(io(path))
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Error + use<'_> {
    move |e| Error::Io(path.display().to_string(), e)
}
