//! The packages whose programs can use a GPU.

use super::{Error, output};
use serde::Deserialize;
use std::collections::HashSet;

/// The only package that calls the driver.
const DRIVER: &str = "warpipe-host";

/// The used fields of `cargo metadata`.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// `None` for a normal dependency, otherwise `dev` or `build`.
    kind: Option<String>,
}

/// The workspace's packages whose tests, benchmarks or examples are linked to [`DRIVER`].
pub fn packages() -> Result<HashSet<String>, Error> {
    let program = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let said = output(&program, &["metadata", "--no-deps", "--format-version=1"])?;
    let metadata = serde_json::from_str(&said).map_err(|e| Error::Command {
        command: "cargo metadata".to_owned(),
        reason: e.to_string(),
    })?;
    Ok(linked(&metadata))
}

fn linked(metadata: &Metadata) -> HashSet<String> {
    let mut libraries = HashSet::from([DRIVER]);
    let on = |package: &Package, libraries: &HashSet<&str>, dev: bool| {
        package.dependencies.iter().any(|d| {
            let used = d.kind.is_none() || dev && d.kind.as_deref() == Some("dev");
            used && libraries.contains(d.name.as_str())
        })
    };
    while let Some(more) = metadata
        .packages
        .iter()
        .find(|p| !libraries.contains(p.name.as_str()) && on(p, &libraries, false))
    {
        libraries.insert(&more.name);
    }
    let packages = metadata.packages.iter();
    let packages =
        packages.filter(|p| libraries.contains(p.name.as_str()) || on(p, &libraries, true));
    packages.map(|p| p.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dev_dependency_links_tests_but_no_library() {
        let text = r#"{"packages": [
            {"name": "a", "dependencies": [{"name": "b", "kind": "dev"}]},
            {"name": "b", "dependencies": [{"name": "warpipe-host", "kind": null}]},
            {"name": "c", "dependencies": [{"name": "a", "kind": null}]},
            {"name": "d", "dependencies": [{"name": "b", "kind": "build"}]},
            {"name": "warpipe-host", "dependencies": [{"name": "libloading", "kind": null}]}
        ]}"#;
        let have = linked(&serde_json::from_str(text).unwrap());
        assert_eq!(have, ["a", "b", "warpipe-host"].map(str::to_owned).into());
    }

    #[test]
    fn of_this_workspace() {
        let have = packages().unwrap();
        for name in
            ["warpipe", "warpipe-host", "warpipe-bench", "warpipe-scenarios", "warpipe-conformance"]
        {
            assert!(have.contains(name), "{name}: {have:?}");
        }
        for name in ["warpipe-sim", "warpipe-isa", "warpipe-pipeline", "xtask"] {
            assert!(!have.contains(name), "{name}: {have:?}");
        }
    }
}
