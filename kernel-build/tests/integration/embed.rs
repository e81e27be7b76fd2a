//! A crate whose build script uses kernel-build, through cargo: when it runs again, and what a
//! user sees when something is wrong.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

const FILES: [&str; 7] = [
    "Cargo.toml",
    "build.rs",
    "src/main.rs",
    "kernels/Cargo.toml",
    "kernels/src/lib.rs",
    "helper/Cargo.toml",
    "helper/src/lib.rs",
];

/// A copy of the fixture `embed`, to be edited and built.
struct Project {
    dir: PathBuf,
}

impl Project {
    fn new(name: &str) -> Self {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        for file in FILES {
            let text = fs::read_to_string(here.join("tests/fixtures/embed").join(file)).unwrap();
            let to = dir.join(file);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::write(to, text.replace("PATH", here.to_str().unwrap())).unwrap();
        }
        // The same versions as here, so that nothing is looked up.
        if let Ok(lock) = fs::read(here.join("../Cargo.lock")) {
            fs::write(dir.join("Cargo.lock"), lock).unwrap();
        }
        let _ = fs::remove_file(dir.join("runs.log"));
        Self { dir }
    }

    fn replace(&self, file: &str, from: &str, to: &str) {
        let path = self.dir.join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{file} has no `{from}`");
        fs::write(path, text.replace(from, to)).unwrap();
    }

    fn cargo(&self, command: &str, variables: &[(&str, &str)]) -> Output {
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        for variable in
            ["PTXAS", "WARPIPE_PTXAS_WHEEL", "CUDA_HOME", "RUSTFLAGS", "CARGO_TARGET_DIR"]
        {
            cargo.env_remove(variable);
        }
        cargo
            .current_dir(&self.dir)
            .arg(command)
            .args(["--color", "never"])
            .envs(variables.iter().copied());
        cargo.output().unwrap()
    }

    /// Builds and runs: the PTX, and how often the build script has run so far.
    fn ptx(&self) -> (String, usize) {
        let output = self.cargo("run", &[]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        let runs = fs::read_to_string(self.dir.join("runs.log")).unwrap().lines().count();
        (String::from_utf8(output.stdout).unwrap(), runs)
    }

    /// What a failing build prints.
    fn failure(&self, variables: &[(&str, &str)]) -> String {
        let output = self.cargo("build", variables);
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

#[test]
fn cargo_runs_it_when_it_must_and_only_then() {
    let project = Project::new("embed");
    let (ptx, first) = project.ptx();
    assert!(ptx.contains(".entry answer(") && ptx.contains("42"), "{ptx}");
    assert_eq!(project.ptx(), (ptx.clone(), first), "nothing changed");

    fs::write(project.dir.join("kernels/notes.txt"), "not a source").unwrap();
    assert_eq!(project.ptx(), (ptx.clone(), first), "no source changed");

    project.replace("kernels/src/lib.rs", "A kernel that", "The kernel that");
    assert_eq!(project.ptx(), (ptx.clone(), first + 1), "the kernel crate changed");

    project.replace("helper/src/lib.rs", "42", "4242");
    let (changed, runs) = project.ptx();
    assert_eq!(runs, first + 2, "a crate below the kernel crate changed");
    assert!(changed.contains("4242"), "{changed}");

    project.replace("helper/src/lib.rs", "4242", "\"4242\"");
    let failure = project.failure(&[]);
    assert!(
        failure.contains("error: the kernel crate fixture_kernels does not compile for sm_90a:")
    );
    assert!(failure.contains("error[E0308]: mismatched types"), "{failure}");
    assert!(failure.contains("helper/src/lib.rs:6:5"), "{failure}");
    project.replace("helper/src/lib.rs", "\"4242\"", "42");
    assert_eq!(project.ptx().0, ptx, "mended");

    let failure = project.failure(&[("WARPIPE_PTXAS_WHEEL", "/nowhere")]);
    let line =
        "error: WARPIPE_PTXAS_WHEEL=/nowhere: no ptxas there; unset it to build without the check";
    assert!(failure.contains(line), "{failure}");
}

/// The kernel crate comes from outside of the workspace, and its dependency from a patch: as a package of a registry
/// does, of which the workspace replaces a dependency.
#[test]
fn a_kernel_crate_is_found_by_its_package_name() {
    let project = Project::new("embed-package");
    project.replace(
        "build.rs",
        "new(\"kernels\")",
        "package(\"fixture-kernels\").feature(\"twice\")",
    );
    let outside = project.dir.with_file_name("embed-package-kernels");
    fs::create_dir_all(outside.join("src")).unwrap();
    let kernels = project.dir.join("kernels");
    let manifest = fs::read_to_string(kernels.join("Cargo.toml")).unwrap();
    let manifest = manifest
        .replace("{ path = \"../helper\" }", "\"0.0.0\"\n[features]\ntwice = []\n[workspace]");
    fs::write(outside.join("Cargo.toml"), manifest).unwrap();
    let source = fs::read_to_string(kernels.join("src/lib.rs")).unwrap();
    // For the host, the crate is empty.
    let source = source.replace("#![no_std]", "#![cfg(target_arch = \"nvptx64\")]\n#![no_std]");
    let twice = "fixture_helper::answer() * if cfg!(feature = \"twice\") { 2 } else { 1 }";
    fs::write(outside.join("src/lib.rs"), source.replace("fixture_helper::answer()", twice))
        .unwrap();
    fs::remove_dir_all(kernels).unwrap();
    project.replace("Cargo.toml", "members = [\"kernels\", \"helper\"]", "members = [\"helper\"]");
    let tables = "[dependencies]\nfixture-kernels = { path = \"../embed-package-kernels\" }\n\n\
                  [patch.crates-io]\nfixture-helper = { path = \"helper\" }\n\n[build-dependencies]";
    project.replace("Cargo.toml", "[build-dependencies]", tables);

    let (ptx, first) = project.ptx();
    assert!(ptx.contains(".entry answer(") && ptx.contains("84"), "{ptx}");
    assert_eq!(project.ptx(), (ptx, first), "nothing changed");
    project.replace("helper/src/lib.rs", "42", "4242");
    let (changed, runs) = project.ptx();
    assert_eq!(runs, first + 1, "a patched crate below the kernel crate changed");
    assert!(changed.contains("8484"), "{changed}");

    project.replace("build.rs", "fixture-kernels", "fixture-kernel");
    let failure = project.failure(&[]);
    let line = "error: fixture-embed has no dependency fixture-kernel: add it to its Cargo.toml";
    assert!(failure.contains(line), "{failure}");
}
