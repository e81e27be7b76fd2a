//! The book: a copy of the pages for mdBook, in which links to the repository's files lead to copies of these files.

use super::links::{is_outside, links};
use super::{Error, Page, folder, io, load, resolved, save, summary};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the book and checks its links. Returns the folder with the pages.
pub fn build(root: &Path, pages: &[Page]) -> Result<PathBuf, Error> {
    let book = root.join("target/book");
    for old in ["src", "html"] {
        match fs::remove_dir_all(book.join(old)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(io(&book)(e)),
            _ => {}
        }
    }
    stage(root, pages, &book)?;
    let mdbook = mdbook(root);
    let output = Command::new(&mdbook).arg("build").arg(&book).output().map_err(|e| {
        Error::MdBook(format!(
            "{}: {e}; .ci/run book installs mdBook to target/ci",
            mdbook.display()
        ))
    })?;
    let log = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() || log.contains("WARN") || log.contains("ERROR") {
        return Err(Error::MdBook(format!(
            "mdbook build ({}):\n{}",
            output.status,
            log.trim_end()
        )));
    }
    let html = book.join("html");
    let findings = broken(&html)?;
    if findings.is_empty() { Ok(html) } else { Err(Error::Findings(findings)) }
}

/// `MDBOOK`, or what `.ci/run` installed, or the one in `PATH`.
fn mdbook(root: &Path) -> PathBuf {
    let installed = root.join("target/ci/mdbook/bin/mdbook");
    match std::env::var_os("MDBOOK") {
        Some(path) => path.into(),
        None if installed.is_file() => installed,
        None => "mdbook".into(),
    }
}

/// Writes `book.toml` and the folder `src`.
fn stage(root: &Path, pages: &[Page], book: &Path) -> Result<(), Error> {
    let src = book.join("src");
    let docs = root.join("docs");
    let contents = load(&docs.join("SUMMARY.md"))?;
    let chapters = summary::chapters(&contents);
    let mut copied = BTreeSet::new();
    for page in
        pages.iter().filter(|page| chapters.contains(&page.path) || page.path == "docs/SUMMARY.md")
    {
        let (text, files) = rewritten(page, &chapters);
        save(&src.join(chapter(&page.path)), &text)?;
        copied.extend(files);
    }
    for entry in fs::read_dir(&docs).map_err(io(&docs))? {
        let path = entry.map_err(io(&docs))?.path();
        if path.extension().is_some_and(|end| end == "css") {
            let to = src.join(path.file_name().unwrap_or_default());
            fs::copy(&path, &to).map_err(io(&path))?;
        }
    }
    for file in copied {
        let from = root.join(&file);
        if let Some(name) = file.strip_prefix("docs/").filter(|name| is_picture(name)) {
            let to = src.join(name);
            fs::create_dir_all(to.parent().unwrap_or(&src)).map_err(io(&src))?;
            fs::copy(&from, &to).map_err(io(&from))?;
            continue;
        }
        let text = if from.is_dir() { listing(&from)? } else { load(&from)? };
        save(&src.join(copy_of(&file)), &text)?;
    }
    save(&book.join("book.toml"), &load(&docs.join("book.toml"))?)
}

/// Whether a file of docs/ lies in the book as it is.
fn is_picture(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|end| end == "svg")
}

/// Where a chapter lies in the book: all are in one folder, so that none is called README but the first.
fn chapter(path: &str) -> String {
    path.strip_prefix("docs/").map_or_else(|| path.replace('/', "-"), String::from)
}

/// Where the copy of a file of the repository lies in the book.
fn copy_of(path: &str) -> String {
    format!("repository/{path}.txt")
}

/// A page whose links lead to chapters and to copies, and the files of which there must be copies.
fn rewritten(page: &Page, chapters: &[String]) -> (String, Vec<String>) {
    let mut text = page.text.clone();
    let mut files = Vec::new();
    for link in links(&page.text).into_iter().rev() {
        let (path, fragment) = link.target.split_once('#').unwrap_or((link.target, ""));
        if is_outside(link.target) || path.is_empty() {
            continue;
        }
        let Some(file) = resolved(folder(&page.path), path) else { continue };
        let target = if chapters.contains(&file) {
            format!("{}{}{fragment}", chapter(&file), if fragment.is_empty() { "" } else { "#" })
        } else if file.starts_with("docs/") && is_picture(&file) {
            files.push(file);
            path.to_owned()
        } else {
            files.push(file.clone());
            copy_of(&file)
        };
        text.replace_range(link.start..link.start + link.target.len(), &target);
    }
    (without_items(&text), files)
}

/// The text with `[`item`]`, which only rustdoc makes a link of, as `item`.
fn without_items(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("[`") {
        let (before, link) = rest.split_at(start);
        out.push_str(before);
        let end = link.find("`]").map_or(link.len(), |end| end + 2);
        let (item, after) = link.split_at(end);
        let defines = after.starts_with(':') && (before.is_empty() || before.ends_with('\n'));
        let is_item = item.ends_with("`]")
            && !item.contains('\n')
            && !after.starts_with(['(', '['])
            && !defines;
        out.push_str(if is_item { &item[1..item.len() - 1] } else { item });
        rest = after;
    }
    out + rest
}

/// The names in a folder, one per line.
fn listing(folder: &Path) -> Result<String, Error> {
    let entries = fs::read_dir(folder).map_err(io(folder))?.filter_map(Result::ok);
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names.join("\n") + "\n")
}

/// Links of the built pages that lead nowhere.
fn broken(html: &Path) -> Result<Vec<String>, Error> {
    let mut findings = Vec::new();
    for entry in fs::read_dir(html).map_err(io(html))? {
        let path = entry.map_err(io(html))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // The page for printing has all chapters in it, whose links mdBook does not all rewrite.
        if path.extension().is_none_or(|end| end != "html")
            || name == "print.html"
            || name == "404.html"
        {
            continue;
        }
        let text = load(&path)?;
        for target in attributes(&text) {
            let (file, fragment) = target.split_once('#').unwrap_or((target, ""));
            if file.contains(':') || file.starts_with("//") {
                continue;
            }
            let file = if file.is_empty() { path.clone() } else { html.join(file) };
            if !file.exists() {
                findings.push(format!("{name}: {target} does not exist"));
            } else if !fragment.is_empty() && !load(&file)?.contains(&format!("id=\"{fragment}\""))
            {
                findings.push(format!("{name}: {target} has no such place"));
            }
        }
    }
    findings.sort();
    Ok(findings)
}

/// The values of `href` and `src`.
fn attributes(html: &str) -> impl Iterator<Item = &str> {
    let starts = [" href=\"", " src=\""].into_iter().flat_map(|name| html.match_indices(name));
    starts.filter_map(|(at, name)| html[at + name.len()..].split('"').next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_chapters_and_copies() {
        let text = "x [`A`]: [`b`](../src/b.rs#L3) [c](c.md#d) [e](e.svg) [f](../sim/README.md) [g](https://h.i) [j](#k) [l](data)\n";
        let page = Page { path: "docs/a.md".into(), text: text.into() };
        let chapters = ["docs/c.md", "sim/README.md"].map(String::from);
        let (text, files) = rewritten(&page, &chapters);
        assert_eq!(
            text,
            "x `A`: [`b`](repository/src/b.rs.txt) [c](c.md#d) [e](e.svg) [f](sim-README.md) [g](https://h.i) [j](#k) [l](repository/docs/data.txt)\n"
        );
        assert_eq!(files, ["docs/data", "docs/e.svg", "src/b.rs"]);
    }
}
