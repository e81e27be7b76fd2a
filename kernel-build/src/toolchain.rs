//! The parts of the Rust toolchain that a device build uses, and the error if one is missing.

use crate::Error;
use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// Paths of the toolchain's programs.
#[derive(Debug)]
pub struct Toolchain {
    /// cargo.
    pub cargo: PathBuf,
    /// The optimiser of rustc's LLVM.
    pub opt: PathBuf,
    /// The code generator of rustc's LLVM.
    pub llc: PathBuf,
    /// Output of `rustc --version --verbose`, with the versions of the compiler and its LLVM.
    pub version: String,
}

impl Toolchain {
    /// Finds the toolchain that cargo uses for this build, and checks its components.
    pub fn find() -> Result<Self, Error> {
        // cargo tells build scripts which rustc and cargo it uses. The plain names find rustup's proxies,
        // which follow the same RUSTUP_TOOLCHAIN.
        let rustc = env::var_os("RUSTC").map_or_else(|| "rustc".into(), PathBuf::from);
        let cargo = env::var_os("CARGO").map_or_else(|| "cargo".into(), PathBuf::from);
        let sysroot = PathBuf::from(ask(&rustc, &["--print", "sysroot"])?.trim());
        let version = ask(&rustc, &["--version", "--verbose"])?;
        Self::at(&sysroot, cargo, version)
    }

    /// The toolchain at `sysroot`, if it has what a device build needs.
    fn at(sysroot: &Path, cargo: PathBuf, version: String) -> Result<Self, Error> {
        let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
        let rustlib = sysroot.join("lib/rustlib");
        let bin = rustlib.join(host).join("bin");
        let tool = |name: &str| bin.join(format!("{name}{}", env::consts::EXE_SUFFIX));
        let (opt, llc) = (tool("opt"), tool("llc"));
        let mut missing = Vec::new();
        if !rustlib.join("src/rust/library/core/Cargo.toml").is_file() {
            missing.push("rust-src");
        }
        if !opt.is_file() || !llc.is_file() {
            missing.push("llvm-tools");
        }
        if !missing.is_empty() {
            return Err(missing_components(&missing, sysroot));
        }
        Ok(Self { cargo, opt, llc, version })
    }
}

/// The error, with a command for the toolchain at `sysroot`.
fn missing_components(missing: &[&str], sysroot: &Path) -> Error {
    // rustup knows the name of a folder below its `toolchains`. Any other toolchain was installed by other
    // means; then rustup can install one.
    let name = sysroot.file_name().unwrap_or_default().to_string_lossy();
    let of_rustup = sysroot.parent().is_some_and(|parent| parent.ends_with("toolchains"));
    let command = if of_rustup {
        format!("rustup component add --toolchain {name} {}", missing.join(" "))
    } else {
        format!("rustup toolchain install 1.95.0 --component {}", missing.join(","))
    };
    let component = if missing.len() == 1 { "component" } else { "components" };
    Error::MissingComponents {
        missing: format!("the {component} {}", missing.join(" and ")),
        command,
    }
}

/// Runs rustc and returns what it prints.
fn ask(rustc: &Path, args: &[&str]) -> Result<String, Error> {
    let output = Command::new(rustc).args(args).output().map_err(Error::io("cannot run", rustc))?;
    if !output.status.success() {
        return Err(Error::Tool {
            tool: "rustc",
            status: output.status,
            input: args.join(" ").into(),
            output: String::from_utf8_lossy(&output.stderr).into_owned(),
        });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_component_comes_with_its_command() {
        let sysroot = Path::new("/home/u/.rustup/toolchains/1.95.0-x86_64-unknown-linux-gnu");
        assert_eq!(
            missing_components(&["rust-src", "llvm-tools"], sysroot).to_string(),
            "the Rust toolchain lacks the components rust-src and llvm-tools; install: rustup \
             component add --toolchain 1.95.0-x86_64-unknown-linux-gnu rust-src llvm-tools"
        );
        assert_eq!(
            missing_components(&["llvm-tools"], Path::new("/usr")).to_string(),
            "the Rust toolchain lacks the component llvm-tools; install: rustup toolchain install \
             1.95.0 --component llvm-tools"
        );
    }

    #[test]
    fn a_toolchain_without_components_is_refused() {
        let sysroot = Path::new("/nowhere/toolchains/1.95.0-x86_64-unknown-linux-gnu");
        let version = "rustc 1.95.0\nhost: x86_64-unknown-linux-gnu\n".to_owned();
        let line = Toolchain::at(sysroot, "cargo".into(), version).unwrap_err().to_string();
        assert!(line.contains("lacks the components rust-src and llvm-tools; install: "), "{line}");
    }

    #[test]
    fn the_pinned_toolchain_has_everything() {
        let toolchain = Toolchain::find().unwrap();
        assert!(toolchain.opt.is_file() && toolchain.llc.is_file());
        assert!(toolchain.version.contains("LLVM version"));
    }
}
