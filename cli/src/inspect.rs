//! `warpipe inspect`: a page about a kernel of the embedded image, or of one's own.

use super::error::Error;
use super::instance::most_like_first;
use super::{kernels, say};
use kernel_build::{KernelBuilder, PtxasCheck};
use std::path::{Path, PathBuf};
use warpipe_inspect::{Module, Tools, inspect, read};

/// Options of `warpipe inspect`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The kernel's name, or the end of it behind an underscore; without it, the kernels are listed
    kernel: Option<String>,
    /// A PTX file, or the .rs file of an image of your own (in OUT_DIR) [default: the embedded image]
    #[arg(long, value_name = "FILE", conflicts_with = "build")]
    image: Option<PathBuf>,
    /// Build this kernel crate with line information, so that SASS stands beside its Rust lines
    #[arg(long, value_name = "DIR")]
    build: Option<PathBuf>,
    /// Features of the crate of --build
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "build")]
    features: Vec<String>,
    /// Leave out what ptxas and nvdisasm would say
    #[arg(long)]
    no_tools: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Error> {
    let modules = match (&args.image, &args.build) {
        (Some(file), _) => Some(read(file)?),
        (None, Some(dir)) => Some(build(dir, &args.features)?),
        (None, None) => None,
    };
    let names: Vec<&str> = match &modules {
        Some(modules) => modules.iter().map(|module| module.kernel.as_str()).collect(),
        None => warpipe::GEMM_IMAGE.code.iter().map(|code| code.kernel).collect(),
    };
    let Some(asked) = &args.kernel else { return list(args.json, modules.is_none(), &names) };
    let kernel = chosen(&names, asked)?;
    let ptx = match &modules {
        Some(modules) => modules.iter().find(|m| m.kernel == kernel).map(|m| m.ptx.clone()),
        None => Some(warpipe::GEMM_IMAGE.ptx(kernel).map_err(host::Error::from)?.into_owned()),
    };
    let tools = if args.no_tools { Tools::none() } else { Tools::find() };
    let page = inspect(&ptx.unwrap_or_default(), kernel, &tools)?;
    say(&if args.json { serde_json::json!(page).to_string() } else { page.to_string() })
}

/// The kernel that `asked` names: the one of that name, or the only one whose name ends in `_` and `asked`.
fn chosen<'a>(names: &[&'a str], asked: &str) -> Result<&'a str, Error> {
    let end = format!("_{asked}");
    let ends: Vec<&'a str> = names.iter().copied().filter(|name| name.ends_with(&end)).collect();
    match (names.iter().find(|name| **name == asked), ends.as_slice()) {
        (Some(name), _) | (None, [name]) => Ok(name),
        (None, []) => {
            let mut names = names.to_vec();
            most_like_first(asked, &mut names);
            let have = names.into_iter().map(str::to_owned).collect();
            let kernel = asked.to_owned();
            Err(warpipe_inspect::Error::NoKernel { kernel, have }.into())
        }
        (None, several) => Err(Error::Usage(format!(
            "{} kernels end in {asked}: {}",
            several.len(),
            several.join(", ")
        ))),
    }
}

/// Lists the kernels, those of the embedded image with what the host knows of them.
fn list(json: bool, embedded: bool, names: &[&str]) -> Result<(), Error> {
    if json {
        return say(&serde_json::json!({ "kernels": names }).to_string());
    }
    if embedded {
        return say(&kernels::row_lines(&kernels::rows(warpipe::GEMM_IMAGE.kernels)).join("\n"));
    }
    say(&names.join("\n"))
}

/// Builds a kernel crate with line information.
fn build(dir: &Path, features: &[String]) -> Result<Vec<Module>, Error> {
    let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    // The nearest target folder, so that `core` is compiled for the device once.
    let target = dir.ancestors().map(|folder| folder.join("target")).find(|target| target.is_dir());
    let out = target.unwrap_or_else(|| dir.join("target")).join("inspect");
    let mut builder = KernelBuilder::new(&dir).line_info(true).ptxas(PtxasCheck::Off).out_dir(out);
    for feature in features {
        builder = builder.feature(feature);
    }
    let image = builder.build().map_err(warpipe_inspect::Error::from)?;
    let modules = image.modules.into_iter();
    Ok(modules.map(|module| Module { kernel: module.kernel, ptx: module.text }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_has_its_name_or_a_unique_end_of_it() {
        let names = ["gemm_bf16_bf16_64x64", "gemm_bf16_f32_64x64", "copy", "stream_copy"];
        assert_eq!(chosen(&names, "copy").unwrap(), "copy");
        assert_eq!(chosen(&names, "f32_64x64").unwrap(), "gemm_bf16_f32_64x64");
        let line = |asked| chosen(&names, asked).unwrap_err().to_string();
        assert_eq!(
            line("64x64"),
            "2 kernels end in 64x64: gemm_bf16_bf16_64x64, gemm_bf16_f32_64x64"
        );
        // Those most like it come first.
        assert!(line("cody").starts_with("no kernel cody; there are: copy, stream_copy, "));
    }
}
