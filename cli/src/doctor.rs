//! `warpipe doctor`: what this machine has, and what does not work without the rest.

use super::error::Error;
use super::{kernels, say};
use kernel_build::{Toolchain, ptxas::Ptxas};
use serde::Serialize;
use std::borrow::Cow;
use warpipe::isa::kernel::Image;

/// Options of `warpipe doctor`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    /// List each kernel of the image
    #[arg(long)]
    kernels: bool,
}

/// One component of the machine, present or missing.
#[derive(Clone, Serialize)]
struct Finding {
    what: &'static str,
    /// Whether the component is present and complete.
    good: bool,
    /// What was found, or why nothing was.
    detail: String,
    /// What does not work without the component.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<Cow<'static, str>>,
    /// The kernels of the image by element types.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    families: Vec<kernels::Family>,
    /// Each kernel of the image, with `--kernels`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kernels: Vec<kernels::Row>,
}

impl Finding {
    fn of<T, E: std::fmt::Display>(
        what: &'static str,
        result: Result<T, E>,
        detail: impl FnOnce(T) -> String,
        cost: &'static str,
    ) -> Self {
        match result {
            Ok(found) => Self::new(what, detail(found), None),
            Err(e) => Self::new(what, e.to_string(), Some(cost.into())),
        }
    }

    /// A component with a cost is missing or incomplete.
    fn new(what: &'static str, detail: String, cost: Option<Cow<'static, str>>) -> Self {
        Self { what, good: cost.is_none(), detail, cost, families: Vec::new(), kernels: Vec::new() }
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { what, good, detail, cost, families, kernels } = self;
        write!(f, "{} {what:<10} {detail}", if *good { '+' } else { '-' })?;
        cost.as_ref().map_or(Ok(()), |cost| write!(f, "\n  {:<10} so {cost}", ""))?;
        let mut tables = Vec::new();
        if !families.is_empty() {
            tables.extend(kernels::family_lines(families));
        }
        if !kernels.is_empty() {
            tables.push(String::new());
            tables.extend(kernels::row_lines(kernels));
        }
        for line in tables {
            write!(f, "\n{}", format!("  {:<10} {line}", "").trim_end())?;
        }
        Ok(())
    }
}

/// Runs the command. A missing component is a finding, not an error.
pub fn run(args: &Args) -> Result<(), Error> {
    let findings =
        [vec![toolchain(), image(args.kernels), ptxas()], gpus(), vec![cublaslt()]].concat();
    if args.json {
        let version = env!("CARGO_PKG_VERSION");
        let json = serde_json::json!({ "warpipe": version, "findings": findings });
        return say(&json.to_string());
    }
    let text: Vec<String> = findings.iter().map(ToString::to_string).collect();
    say(&text.join("\n"))
}

/// The Rust toolchain that compiles kernels.
fn toolchain() -> Finding {
    Finding::of(
        "toolchain",
        Toolchain::find(),
        |found| {
            let rustc = found.version.lines().next().unwrap_or_default();
            format!("{rustc}, with rust-src and llvm-tools")
        },
        "this program runs, but kernels cannot be built",
    )
}

/// The embedded image of this program.
fn image(name_kernels: bool) -> Finding {
    let image = &warpipe::GEMM_IMAGE;
    let detail = format!(
        "{} for {}, {} kernels, {} KiB, {}",
        image.name,
        image.archs(),
        image.parts().map(|part| part.kernels.len()).sum::<usize>(),
        image.code_bytes().div_ceil(1024),
        image.ptxas.map_or_else(
            || "not checked by ptxas when it was built".to_owned(),
            |version| format!("checked by ptxas {version}")
        ),
    );
    let cost = image
        .ptxas
        .is_none()
        .then_some("its kernels may have spilled registers or serialised wgmmas".into());
    let kernels = if name_kernels { kernels::rows(image.kernels) } else { Vec::new() };
    let families = kernels::families(image.kernels);
    Finding { families, kernels, ..Finding::new("image", detail, cost) }
}

/// NVIDIA's assembler, which checks kernels when they are built.
fn ptxas() -> Finding {
    let found = Ptxas::find().map_err(|e| e.to_string()).and_then(|found| {
        found.ok_or_else(|| {
            format!(
                "not found in PTXAS, {}, CUDA_HOME or PATH",
                kernel_build::ptxas::WHEEL_VARIABLE
            )
        })
    });
    Finding::of(
        "ptxas",
        found,
        |ptxas| format!("{} at {}", ptxas.version, ptxas.path.display()),
        "a build cannot check its kernels for spilled registers and serialised wgmmas",
    )
}

/// The driver and each GPU.
fn gpus() -> Vec<Finding> {
    const MODEL: &str = "kernels run on the SM model, which is much slower";
    let devices = match host::cuda_devices() {
        Ok(devices) => devices,
        Err(e) => return vec![Finding::of("driver", Err::<(), _>(e), |()| String::new(), MODEL)],
    };
    let mut findings = Vec::new();
    if let Some(first) = devices.first() {
        let (major, minor) = first.driver;
        let detail = format!("supports CUDA {major}.{minor}");
        findings.push(Finding::new("driver", detail, None));
    }
    for gpu in &devices {
        let (major, minor) = gpu.compute;
        let runs = gpu.arch().map(|arch| format!(", runs {arch}")).unwrap_or_default();
        let detail = format!(
            "cuda:{} {}: compute capability {major}.{minor}{runs}, {} SMs, {} MiB",
            gpu.index,
            gpu.name,
            gpu.sms,
            gpu.memory_bytes >> 20
        );
        findings.push(Finding::new("GPU", detail, cost_of(gpu.arch(), &warpipe::GEMM_IMAGE)));
    }
    findings
}

/// What does not work on a GPU that runs `arch`.
fn cost_of(arch: Option<&str>, image: &'static Image) -> Option<Cow<'static, str>> {
    let Some(arch) = arch else {
        return Some("it runs no image: they are for compute capability 9.0, 10.0 and 10.3".into());
    };
    if arch == "sm_90a" {
        return None;
    }
    let Some(part) = image.part(arch) else {
        let words = "docs/blackwell.md says how to build for it";
        let archs = image.archs();
        return Some(
            format!("it runs nothing of this image, which is for {archs}: {words}").into(),
        );
    };
    let kernels = part.kernels.len();
    let words = "that no chip has run before: docs/blackwell.md; the commands use the SM model";
    Some(format!("it runs {kernels} GEMMs for {arch} {words}").into())
}

/// cuBLASLt, the reference of the benchmarks.
fn cublaslt() -> Finding {
    Finding::of(
        "cuBLASLt",
        warpipe_bench::cublaslt::library_version(),
        |version| format!("version {version}"),
        "`warpipe bench` times its own kernels alone",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_generation_is_told_what_it_runs() {
        static HOPPER: Image =
            Image { name: "x", arch: "sm_90a", code: &[], kernels: &[], ptxas: None, others: &[] };
        static BOTH: Image = Image { others: &[Image { arch: "sm_100a", ..HOPPER }], ..HOPPER };
        assert_eq!(cost_of(Some("sm_90a"), &HOPPER), None);
        let said = |arch, image| cost_of(arch, image).expect("a cost").into_owned();
        assert_eq!(
            said(Some("sm_100a"), &HOPPER),
            "it runs nothing of this image, which is for sm_90a: docs/blackwell.md says how to build for it"
        );
        assert!(
            said(Some("sm_100a"), &BOTH).starts_with("it runs 0 GEMMs for sm_100a that no chip")
        );
        assert!(said(Some("sm_103a"), &BOTH).contains("which is for sm_90a, sm_100a: "));
        assert!(said(None, &BOTH).contains("9.0, 10.0 and 10.3"));
    }
}
