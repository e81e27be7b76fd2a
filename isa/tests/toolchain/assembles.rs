//! The device half before its independent judge, NVIDIA's assembler; and the table of README.md
//! held to both.
#![allow(missing_docs)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs};

use kernel_build::{DeviceImage, KernelBuilder};

/// Modules of instructions.
const MODULES: [&str; 20] = [
    "thread",
    "sreg",
    "warp",
    "cluster",
    "barrier",
    "mbarrier",
    "fence",
    "cp_async_bulk",
    "tensormap",
    "wgmma",
    "matrix",
    "shared",
    "global",
    "cp_async",
    "cvt",
    "math",
    "setmaxnreg",
    "griddepcontrol",
    "misc",
    "debug",
];

/// A row of the table: module, function, instruction (`None`: it has none).
struct Row {
    module: String,
    function: String,
    instruction: Option<String>,
}

fn crate_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    let path = crate_dir().join(path);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The table "Every function and its instruction".
fn table() -> Vec<Row> {
    let readme = read("README.md");
    let (_, text) = readme.split_once("## Every function").expect("the table's heading");
    let mut module = String::new();
    let mut rows = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("### ") {
            name.trim_matches('`').clone_into(&mut module);
        } else if let Some(cells) = line.strip_prefix("| `") {
            let (function, rest) = cells.split_once("` | ").expect("a row of two cells");
            let instruction = rest.strip_prefix('`').and_then(|r| r.strip_suffix("` |"));
            rows.push(Row {
                module: module.clone(),
                function: function.to_owned(),
                instruction: instruction.map(str::to_owned),
            });
        }
    }
    rows
}

/// The name of the function that a line of a module declares, as `fn name` or, in the tables that
/// macros turn into functions, as `name = "…`, `name = _intrinsic`, `name -> 4:` and `name(4):`.
fn declared(line: &str) -> Option<&str> {
    let line = line.trim();
    let bare = line.strip_prefix("pub ").unwrap_or(line);
    let bare = bare.strip_prefix("unsafe ").unwrap_or(bare);
    let end = |s: &str| s.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(s.len());
    if let Some(rest) = bare.strip_prefix("fn ") {
        let public = line.starts_with("pub ") || rest.contains("d: &mut Self::Regs");
        return (public && !rest.starts_with('$')).then(|| &rest[..end(rest)]);
    }
    let (name, rest) = bare.split_at(end(bare));
    // The keys of `#[diagnostic::on_unimplemented]` look like entries of a table.
    let entry = rest.starts_with(" = \"") && !["message", "label", "note"].contains(&name)
        || rest.starts_with(" = _")
        || rest.starts_with("(1):")
        || rest.starts_with("(2):")
        || rest.starts_with("(4):")
        || (rest.starts_with(" -> ") && rest.contains(':'));
    (entry && !name.is_empty()).then_some(name)
}

fn declared_functions() -> BTreeSet<(String, String)> {
    let mut all = BTreeSet::new();
    for module in MODULES {
        let mut files = vec![format!("src/{module}.rs")];
        if module == "wgmma" {
            files.push("src/wgmma/shape.rs".to_owned());
        }
        for file in files {
            for name in read(file).lines().filter_map(declared) {
                all.insert((module.to_owned(), name.to_owned()));
            }
        }
    }
    all
}

#[test]
fn table_lists_every_function_and_no_other() {
    let listed: BTreeSet<_> = table().into_iter().map(|r| (r.module, r.function)).collect();
    let declared = declared_functions();
    assert!(declared.len() >= 150, "the scan finds only {} functions", declared.len());
    let missing: Vec<_> = declared.difference(&listed).collect();
    let stale: Vec<_> = listed.difference(&declared).collect();
    assert!(missing.is_empty() && stale.is_empty(), "not listed: {missing:?}; gone: {stale:?}");
}

#[test]
fn fixture_calls_every_function() {
    let fixture: String =
        ["sync", "memory", "tensor"].map(|f| read(format!("tests/device/src/{f}.rs"))).concat();
    let uncalled: Vec<_> = table()
        .into_iter()
        .map(|r| match (r.module.as_str(), r.function.as_str()) {
            ("wgmma", f @ ("mma" | "mma_rs")) => format!("M64::<$n>::{f}"),
            ("wgmma", f @ "fence_operand") => format!("<M64<$n> as Shape>::{f}"),
            (module, f) => format!("{module}::{f}"),
        })
        .filter(|call| !["(", "::<"].iter().any(|open| fixture.contains(&format!("{call}{open}"))))
        .collect();
    assert!(uncalled.is_empty(), "the fixture lacks {uncalled:?}");
}

/// Builds the fixture; with a ptxas, spills and errors fail the build.
fn build(name: &str, features: &[&str]) -> DeviceImage {
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut builder = KernelBuilder::new(crate_dir().join("tests/device")).out_dir(&out);
    for feature in features {
        builder = builder.feature(*feature);
    }
    let image = builder.build().unwrap_or_else(|e| panic!("{e}"));
    match &image.ptxas {
        Some((ptxas, report)) => {
            println!("{} kernels assembled by ptxas {}", report.kernels.len(), ptxas.version);
            assert_eq!(report.kernels.len(), image.kernels.len());
        }
        None => println!("no ptxas: only the PTX is looked at"),
    }
    image
}

/// Whether `ptx` has the instruction, with no further qualifier.
fn has(ptx: &str, instruction: &str) -> bool {
    ptx.match_indices(instruction).any(|(at, _)| {
        let next = ptx[at + instruction.len()..].chars().next();
        !next.is_some_and(|c| c.is_ascii_alphanumeric() || ".:_".contains(c))
    })
}

#[test]
fn device_half_assembles() {
    let image = build("isa", &[]);
    let ptx = &image.ptx;
    assert!(ptx.contains(".target sm_90a"));
    let absent: Vec<_> = table()
        .into_iter()
        .filter_map(|r| r.instruction)
        .filter(|instruction| !has(ptx, instruction))
        .collect();
    assert!(absent.is_empty(), "not in the PTX: {absent:?}");

    for n in (8..=256).step_by(8) {
        for t in ["bf16", "f16"] {
            let mma = format!("wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{t}.{t} ");
            // What follows the predicate: imm-scale-a and -b, then imm-trans-a and -b, of which A in
            // registers has the second only.
            let mut majors: Vec<_> = ptx
                .split(&mma)
                .skip(1)
                .map(|rest| rest.split(';').next().and_then(|mma| mma.split_once(", p, ")))
                .map(|operands| operands.expect("a predicate").1)
                .collect();
            majors.sort_unstable();
            let want =
                ["1, 1, 0", "1, 1, 0, 0", "1, 1, 0, 1", "1, 1, 1", "1, 1, 1, 0", "1, 1, 1, 1"];
            assert_eq!(majors, want, "SS and RS of {mma}in every major");
        }
    }
    // What follows the descriptor of B, of A in shared memory and of A in registers.
    let after = |mma: &str| -> Vec<&str> {
        let mma = format!("wgmma.mma_async.sync.aligned.{mma} ");
        let rests = ptx.split(&mma).skip(1);
        let operands =
            rests.map(|rest| rest.split(';').next().and_then(|mma| mma.rsplit_once(", p")));
        operands.map(|operands| operands.expect("a predicate").1).collect()
    };
    for n in (8..=256).step_by(8) {
        for types in [
            "8.f32.tf32.tf32",
            "32.f32.e4m3.e4m3",
            "32.f32.e4m3.e5m2",
            "32.f32.e5m2.e4m3",
            "32.f32.e5m2.e5m2",
        ] {
            assert_eq!(after(&format!("m64n{n}k{types}")), [", 1, 1"; 2], "n{n}k{types}");
        }
        let of_integers = if n <= 32 || n % 16 == 0 { 2 } else { 0 };
        assert_eq!(after(&format!("m64n{n}k32.s32.s8.s8")), vec![""; of_integers], "n{n}");
    }
    for d in 1..=5 {
        let load = format!(
            "cp.async.bulk.tensor.{d}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        );
        for instruction in [
            load.clone(),
            format!("{load}.multicast::cluster"),
            format!("cp.async.bulk.tensor.{d}d.global.shared::cta.tile.bulk_group"),
            format!("cp.async.bulk.prefetch.tensor.{d}d.L2.global.tile"),
        ] {
            assert!(has(ptx, &instruction), "{instruction}");
        }
        for op in ["add", "min", "max", "inc", "dec", "and", "or", "xor"] {
            let reduce =
                format!("cp.reduce.async.bulk.tensor.{d}d.global.shared::cta.{op}.tile.bulk_group");
            assert!(has(ptx, &reduce), "{reduce}");
        }
    }
    for space in ["shared", "shared::cluster", "global"] {
        for word in ["u8", "u16", "u32", "u64", "f32", "v2.u32", "v4.u32"] {
            assert!(has(ptx, &format!("ld.{space}.{word}")), "ld.{space}.{word}");
            assert!(has(ptx, &format!("st.{space}.{word}")), "st.{space}.{word}");
        }
    }
    // What the kernels' attributes say arrives in the image.
    let kernel = |name: &str| image.kernels.iter().find(|k| k.name == name).expect(name);
    assert_eq!(kernel("cluster_ops").cluster, [2, 1, 1]);
    assert_eq!(kernel("barrier_ops").threads, 128);
    assert_eq!(kernel("atomic_ops").smem_bytes, 1024);
}

/// With the feature `stress`, threads sleep around waits and before arrivals.
#[test]
fn stressed_kernels_sleep() {
    let sleeps = |image: &DeviceImage, kernel: &str| {
        let (_, text) = image.ptx.split_once(&format!(".entry {kernel}(")).expect("the kernel");
        text.split("\n}").next().expect("its end").matches("nanosleep").count()
    };
    let (stressed, plain) = (build("isa-stress", &["stress"]), build("isa-unstressed", &[]));
    for kernel in ["mbarrier_ops", "barrier_ops"] {
        let (with, without) = (sleeps(&stressed, kernel), sleeps(&plain, kernel));
        assert!(with > without, "{kernel}: {with} sleeps, {without} without the feature");
    }
}

/// With the feature, a blocking wait looks at the clock and can trap; without it, it does not.
#[test]
fn bounded_waits_trap() {
    let counts = |image: &DeviceImage| {
        let (_, kernel) = image.ptx.split_once(".entry mbarrier_ops(").expect("the kernel");
        let (kernel, _) = kernel.split_once("\n}").expect("its end");
        (kernel.matches("%globaltimer").count(), kernel.matches("trap;").count())
    };
    let (reads, traps) = counts(&build("isa-bounded", &["bounded-waits"]));
    let (plain_reads, plain_traps) = counts(&build("isa-unbounded", &[]));
    assert_eq!(plain_reads, 0);
    // Two blocking waits: each reads the clock before its loop and in it.
    assert!(reads >= 4, "{reads} reads of the clock");
    assert!(traps > plain_traps, "{traps} traps, {plain_traps} without the feature");
}
