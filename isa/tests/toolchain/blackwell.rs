//! tcgen05 before NVIDIA's assembler, for both architectures that have it; and README.md's table of it.

use kernel_build::{Arch, KernelBuilder};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Function and instruction of each row of the table.
fn table() -> Vec<(&'static str, &'static str)> {
    let readme = include_str!("../../README.md");
    let (_, rest) = readme.split_once("## Tensor memory").expect("the heading");
    let (text, _) = rest.split_once("\n## ").expect("another one behind it");
    let row = |line: &'static str| {
        let (function, rest) = line.strip_prefix("| `")?.split_once("` | `")?;
        Some((function, rest.strip_suffix("` |")?))
    };
    text.lines().filter_map(row).collect()
}

#[test]
fn the_table_of_tcgen05_lists_every_function() {
    let own = [
        include_str!("../../src/tcgen05.rs"),
        include_str!("../../src/tcgen05/copies.rs"),
        include_str!("../../src/tcgen05/from_tensor.rs"),
        include_str!("../../src/tcgen05/pair.rs"),
        include_str!("../../src/tcgen05/scaled.rs"),
        include_str!("../../src/tcgen05/shift.rs"),
        include_str!("../../src/tcgen05/moves.rs"),
        include_str!("../../src/clusterlaunchcontrol.rs"),
    ];
    let name = |line: &'static str| {
        let line = line.trim();
        let moved = line.starts_with("ld_") || line.starts_with("st_");
        let rest = line.strip_prefix("pub unsafe fn ").or(line.strip_prefix("pub fn fence"));
        if line.starts_with("pub fn fence") {
            return line["pub fn ".len()..].split('(').next();
        }
        rest.or(moved.then_some(line))?.split([' ', '(', '<']).next()
    };
    let declared: BTreeSet<_> = own
        .iter()
        .flat_map(|file| file.lines())
        .filter_map(name)
        .filter(|n| !n.starts_with('$'))
        .collect();
    let listed: BTreeSet<_> = table().into_iter().map(|row| row.0).collect();
    assert_eq!(declared, listed);
    assert_eq!(listed.len(), 134);
}

/// Kind i8 exists on sm_100a, and not on sm_103a.
fn assembles(arch: Arch, version: &str, i8: bool) {
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("isa-{}", arch.name()));
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/device");
    let feature = if i8 { "sm100-i8" } else { "sm100" };
    let builder = KernelBuilder::new(fixture).out_dir(&out).feature(feature).arch(arch);
    let image = builder.build().unwrap_or_else(|e| panic!("{e}"));
    match &image.ptxas {
        Some((_, report)) => assert_eq!(report.kernels.len(), 5),
        None => println!("no ptxas: only the PTX is looked at"),
    }
    let head = format!(".version {version}\n.target {}", arch.name());
    assert!(image.ptx.contains(&head), "{}", &image.ptx[..200]);
    for (function, instruction) in table() {
        let there = image.ptx.match_indices(instruction).any(|(at, _)| {
            let rest = &image.ptx[at + instruction.len()..];
            let ends = !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || ".:_".contains(c));
            // The second operand is A: an address if it lies in tensor memory.
            let tensor = rest.split_once("], ").is_some_and(|(_, a)| a.starts_with('['));
            ends && (!function.starts_with("mma_") || tensor == function.contains("_ts"))
        });
        assert_eq!(there, i8 || !function.starts_with("mma_i8"), "{function}: {instruction}");
    }
}

#[test]
fn tcgen05_assembles_for_sm_100a() {
    assembles(Arch::Sm100a, "8.7", true);
}

#[test]
fn tcgen05_assembles_for_sm_103a() {
    assembles(Arch::Sm103a, "8.8", false);
}
