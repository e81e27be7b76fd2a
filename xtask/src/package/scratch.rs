//! Projects outside of the repository that use the packages: those of `tests/packaged`.
//!
//! Each is copied to a folder of its own, and its manifest asks for versions as a user's does. `[patch.crates-io]`
//! puts the unpacked `.crate` files in the place of the registry's packages of the same names. Everything else comes
//! from the registry.

use super::{Error, cargo, succeed};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Most packages that a user of the library compiles, warpipe's own included.
const MOST_PACKAGES: usize = 45;
/// What a user of the library must not get.
const FORBIDDEN: [&str; 8] =
    ["clap", "plotters", "svg", "indicatif", "rayon", "cudarc", "safetensors", "warpipe-bench"];

/// Unpacks the `.crate` files and runs the projects with them, in a folder that stays if something is wrong. The workspace's
/// own test is built with `features`.
pub fn run(root: &Path, crates: &[PathBuf], features: &str) -> Result<(), Error> {
    let folder = std::env::temp_dir().join(format!("warpipe-packaged-{}", std::process::id()));
    attempt(root, &folder, crates, features)?;
    fs::remove_dir_all(&folder).map_err(Error::io("cannot remove", &folder))
}

fn attempt(root: &Path, folder: &Path, crates: &[PathBuf], features: &str) -> Result<(), Error> {
    let unpacked = folder.join("crates");
    fs::create_dir_all(&unpacked).map_err(Error::io("cannot create", &unpacked))?;
    let mut patches = String::from("\n[patch.crates-io]\n");
    for file in crates {
        succeed(Command::new("tar").arg("-xzf").arg(file).arg("-C").arg(&unpacked))?;
        let dir = unpacked.join(file.file_stem().unwrap_or_default());
        complete(&dir)?;
        let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name = name.rsplit_once('-').map_or(&*name, |(name, _)| name);
        let _ = writeln!(patches, "{name} = {{ path = {:?} }}", dir.to_string_lossy());
    }
    let project = |name: &str| copy(root, folder, name, &patches);

    let gemm = project("gemm")?;
    light(&gemm)?;
    let product = timed(&gemm, &["run", "--quiet"])?;
    println!("{}", product.trim_end());
    if !product.starts_with("on SM model") || !product.contains("d[0][0] = 64\n") {
        return Err(Error::Wrong(format!("the product is wrong: {product}")));
    }

    let own = project("own-kernel")?;
    // What both need is compiled already. A target folder elsewhere also hides the workspace from the build script.
    let target = gemm.join("target").display().to_string();
    let output = timed(&own, &["run", "--quiet", "--target-dir", &target])?;
    if output != "own_copy copies on the SM model; its image has own_copy\n" {
        return Err(Error::Wrong(format!("a kernel of one's own says: {output}")));
    }

    // The kernels that the packages' sources give are those that the package brings along.
    let image = |features: &str| {
        let build = ["run", "--quiet", "--no-default-features", "--features", features];
        timed(&gemm, &[&build[..], &["--", "image"]].concat())
    };
    let (packaged, built) = (image("few")?, image("few,warpipe/build-kernels")?);
    if !packaged.starts_with("image: ") || packaged != built {
        return Err(Error::Wrong(format!(
            "the packaged image and the one that its sources give differ: {packaged:?}, {built:?}"
        )));
    }
    println!("the packaged kernels are those that the packaged sources give: {}", built.trim_end());

    // What `warpipe new` writes, with the packages as dependencies. All of the workspace, and incremental or not as the tests
    // are: so nothing is compiled again where they were run before.
    let incremental = std::env::var_os("CARGO_INCREMENTAL");
    let projects = [
        "test",
        "--workspace",
        "--features",
        features,
        "--test",
        "integration",
        "--",
        "--nocapture",
        "every_project",
    ];
    let mut test = cargo(root);
    test.env("WARPIPE_PACKAGES", &unpacked)
        .envs(incremental.map(|value| ("CARGO_INCREMENTAL", value)))
        .args(projects);
    let output = succeed(&mut test)?;
    println!("{output}");
    if !output.contains("test result: ok. 1 passed;") {
        return Err(Error::Wrong("no test of the projects of `warpipe new` has run".into()));
    }

    // A product for whose types no kernel is compiled in.
    let mut other = cargo(&gemm);
    let output = other
        .args(["run", "--quiet", "--", "f16"])
        .output()
        .map_err(Error::io("cannot run", &gemm))?;
    let line = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success()
        || !line.contains("; turn on warpipe's feature `gemm-f16`")
        || line.lines().count() != 1
    {
        return Err(Error::Wrong(format!("a missing feature is not one clear line: {line}")));
    }
    Ok(())
}

/// Fails if an unpacked package lacks what a published one has.
fn complete(dir: &Path) -> Result<(), Error> {
    for file in ["Cargo.toml", "README.md", "LICENSE-MIT", "LICENSE-APACHE", "src"] {
        if !dir.join(file).exists() {
            return Err(Error::Wrong(format!("{} has no {file}", dir.display())));
        }
    }
    let manifest = dir.join("Cargo.toml");
    let text = fs::read_to_string(&manifest).map_err(Error::io("cannot read", &manifest))?;
    for key in [
        "description",
        "license",
        "repository",
        "documentation",
        "readme",
        "keywords",
        "categories",
        "rust-version",
    ] {
        if !text.lines().any(|line| line.starts_with(&format!("{key} = "))) {
            return Err(Error::Wrong(format!("{} has no {key}", manifest.display())));
        }
    }
    if text.lines().any(|line| line.starts_with("path = \"..")) {
        return Err(Error::Wrong(format!(
            "{} names a folder outside of the package",
            manifest.display()
        )));
    }
    Ok(())
}

/// A copy of `tests/packaged/<name>` that uses the unpacked packages, without build output.
fn copy(root: &Path, folder: &Path, name: &str, patches: &str) -> Result<PathBuf, Error> {
    let (from, to) = (root.join("tests/packaged").join(name), folder.join(name));
    tree(&from, &to)?;
    let manifest = to.join("Cargo.toml");
    let text = fs::read_to_string(&manifest).map_err(Error::io("cannot read", &manifest))?;
    fs::write(&manifest, text + patches).map_err(Error::io("cannot write", &manifest))?;
    Ok(to)
}

fn tree(from: &Path, to: &Path) -> Result<(), Error> {
    fs::create_dir_all(to).map_err(Error::io("cannot create", to))?;
    for entry in fs::read_dir(from).map_err(Error::io("cannot read", from))? {
        let entry = entry.map_err(Error::io("cannot read", from))?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            tree(&path, &target)?;
        } else {
            fs::copy(&path, &target).map_err(Error::io("cannot copy", &path))?;
        }
    }
    Ok(())
}

/// Fails if a user of the library compiles too much.
fn light(project: &Path) -> Result<(), Error> {
    let tree =
        ["tree", "--prefix", "none", "--no-dedupe", "--format", "{p}", "--edges", "normal,build"];
    let tree = succeed(cargo(project).args(tree))?;
    // The project itself is not one of them.
    // `name v1.2.3 (path)`: two versions of a package are two.
    let packages: BTreeSet<&str> = tree.lines().skip(1).map(name_and_version).collect();
    let names: BTreeSet<&str> =
        packages.iter().filter_map(|package| package.split(' ').next()).collect();
    println!(
        "{} packages: {}",
        packages.len(),
        packages.iter().copied().collect::<Vec<_>>().join(", ")
    );
    if packages.len() > MOST_PACKAGES {
        return Err(Error::Wrong(format!(
            "a user compiles {} packages; at most {MOST_PACKAGES} are right",
            packages.len()
        )));
    }
    match FORBIDDEN.iter().find(|name| names.contains(*name)) {
        Some(name) => Err(Error::Wrong(format!("a user of the library compiles {name}"))),
        None => Ok(()),
    }
}

/// The first two words of a line of `cargo tree`.
fn name_and_version(line: &str) -> &str {
    line.match_indices(' ').nth(1).and_then(|(at, _)| line.get(..at)).unwrap_or(line)
}

/// Runs cargo in a project and prints how long it took.
fn timed(project: &Path, arguments: &[&str]) -> Result<String, Error> {
    let start = Instant::now();
    let output = succeed(cargo(project).args(arguments))?;
    let name = project.file_name().unwrap_or_default().to_string_lossy();
    println!("{name}: cargo {} took {:.0} s", arguments.join(" "), start.elapsed().as_secs_f64());
    Ok(output)
}
