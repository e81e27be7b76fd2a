//! Lowers a kernel's marked IR to PTX with `opt` and `llc` of the LLVM that rustc uses.

use crate::{
    Error,
    ir::{self, KernelIr},
    toolchain::Toolchain,
};
use std::{
    collections::hash_map::DefaultHasher,
    fs,
    hash::{Hash, Hasher},
    path::Path,
    process::Command,
};

/// The PTX ISA version of an architecture. On Hopper `tensormap.replace` needs 8.3, the newest of isa's instructions. Each
/// other architecture has the version that introduced it.
fn ptx_feature(arch: &str) -> &'static str {
    match arch {
        "sm_100a" => "+ptx87",
        "sm_103a" => "+ptx88",
        _ => "+ptx83",
    }
}

/// Optimiser options that device code needs in addition to `O3`.
const OPT_FLAGS: [&str; 3] = [
    // The fragments of a tile stay in registers only if every loop over them is unrolled completely, up to
    // the 128 accumulators of a 64x256 tile.
    "-unroll-threshold=20000",
    "-unroll-full-max-count=256",
    // A role must be inlined. As a function it would pass its state through memory, and ptxas would
    // serialise the wgmmas around the call (C7510).
    "-inline-threshold=100000",
];

/// `opt`'s arguments: keep the kernel, drop what it does not reach, then optimise.
fn opt_arguments(kernels: &str) -> Vec<String> {
    let mut args = vec![
        "-S".to_owned(),
        "-passes=internalize,globaldce,default<O3>".to_owned(),
        format!("-internalize-public-api-list={kernels}"),
    ];
    args.extend(OPT_FLAGS.map(str::to_owned));
    args
}

/// `llc`'s arguments.
fn llc_arguments(arch: &str) -> Vec<String> {
    vec![
        "-O3".to_owned(),
        format!("-mcpu={arch}"),
        format!("-mattr={}", ptx_feature(arch)),
        // opt joins the names of two inlined functions in the name of a block between them. The names of generic functions
        // are long, and llc refuses a joined one of more than 1024 characters.
        "-non-global-value-max-name-size=16384".to_owned(),
    ]
}

/// A lowered kernel.
pub(crate) struct Lowered {
    /// PTX.
    pub ptx: String,
    /// Its variables in global memory, by their names in PTX.
    pub variables: Vec<String>,
}

/// Lowers an optimised module.
pub(crate) fn llc(
    toolchain: &Toolchain,
    arch: &str,
    optimised: &Path,
    ptx: &Path,
) -> Result<(), Error> {
    run("llc", &toolchain.llc, llc_arguments(arch), optimised, ptx)
}

/// Optimises a kernel's module and lowers it to PTX. Its files, in `folder`, are `<kernel>.ll`, `.opt.ll`, `.ptx`, and
/// `.key` with a hash of the inputs: if that is unchanged, so is the PTX.
pub(crate) fn lower(
    toolchain: &Toolchain,
    arch: &str,
    kernel: &str,
    KernelIr { text, entries }: &KernelIr,
    folder: &Path,
) -> Result<Lowered, Error> {
    let file = |suffix: &str| folder.join(format!("{kernel}.{suffix}"));
    let (module, optimised, ptx, key_file) = (file("ll"), file("opt.ll"), file("ptx"), file("key"));
    let (opt, llc) = (opt_arguments(&entries.join(",")), llc_arguments(arch));
    let mut hasher = DefaultHasher::new();
    (text, &opt, &llc, &toolchain.version).hash(&mut hasher);
    let key = format!("{:016x}", hasher.finish());
    let known = fs::read_to_string(&key_file).is_ok_and(|known| known == key);
    if !(known && ptx.is_file() && optimised.is_file()) {
        fs::write(&module, text).map_err(Error::io("cannot write", &module))?;
        run("opt", &toolchain.opt, opt, &module, &optimised)?;
        run("llc", &toolchain.llc, llc, &optimised, &ptx)?;
        // The key is written last, so that an interrupted build is not taken for a complete one.
        fs::write(&key_file, &key).map_err(Error::io("cannot write", &key_file))?;
    }
    let read = |file: &Path| fs::read_to_string(file).map_err(Error::io("cannot read", file));
    Ok(Lowered { ptx: read(&ptx)?, variables: ir::variables(&read(&optimised)?) })
}

/// Runs `opt` or `llc`.
fn run(
    tool: &'static str,
    program: &Path,
    args: Vec<String>,
    input: &Path,
    output: &Path,
) -> Result<(), Error> {
    let ran = Command::new(program)
        .args(args)
        .arg(input)
        .arg("-o")
        .arg(output)
        .output()
        .map_err(Error::io("cannot run", program))?;
    if ran.status.success() {
        return Ok(());
    }
    let output = String::from_utf8_lossy(&ran.stderr).trim_end().to_owned();
    Err(Error::Tool { tool, status: ran.status, input: input.to_owned(), output })
}
