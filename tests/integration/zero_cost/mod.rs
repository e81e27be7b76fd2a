//! The types cost nothing: the SASS of the typed GEMM against that of the same GEMM by hand
//! (tests/fixtures/raw-gemm), and both on the SM model, bit by bit.
//!
//! The SASS needs ptxas, found as kernel-build finds it, and the nvdisasm beside it. Without them
//! a test prints a line and passes; with `WARPIPE_REQUIRE_PTXAS=1` it fails. docs/zero-cost.md
//! explains what is compared. `cargo test --test integration zero_cost:: -- --nocapture` prints the
//! tables.

mod sass;

use crate::twin::{self, TYPED};
use kernel_build::Arch;
use kernel_build::ptxas::{Ptxas, Report};
use rayon::prelude::*;
use sass::Function;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use warpipe::gpu_kernels::gemm::scales::unit;
use warpipe::gpu_kernels::gemm::table::all_instances;
use warpipe::gpu_kernels::gemm::{Instance, KernelSchedule};
use warpipe::host::{Device, Dtype, SimConfig, data};
use warpipe::isa::kernel::{Image, KernelMeta};

const RAW: &str = "raw_gemm_bf16_bf16_128x256_2x1";

const ARCH: &str = Arch::Sm90a.name();

type Tools = (Ptxas, PathBuf);

/// ptxas and nvdisasm, or `None` with a printed line.
fn tools(test: &str) -> Option<Tools> {
    let why = match Ptxas::find() {
        Ok(Some(ptxas)) => {
            let name = format!("nvdisasm{}", std::env::consts::EXE_SUFFIX);
            let beside = ptxas.path.with_file_name(&name);
            let path = std::env::var_os("PATH").unwrap_or_default();
            let elsewhere = std::env::split_paths(&path).map(|dir| dir.join(&name));
            match std::iter::once(beside).chain(elsewhere).find(|program| program.is_file()) {
                Some(nvdisasm) => return Some((ptxas, nvdisasm)),
                None => format!("no nvdisasm beside {} nor in PATH", ptxas.path.display()),
            }
        }
        Ok(None) => "no ptxas found (PTXAS, WARPIPE_PTXAS_WHEEL, CUDA_HOME, PATH)".to_owned(),
        Err(error) => error.to_string(),
    };
    let required = std::env::var_os("WARPIPE_REQUIRE_PTXAS").is_some_and(|value| value == "1");
    assert!(!required, "WARPIPE_REQUIRE_PTXAS=1: {why}");
    println!("{test}: skipped, {why}");
    None
}

/// A kernel of an image as the assembler makes it, and what it says of it. The image's build has assembled it already,
/// except where the tests run without their target folder.
fn assemble(image: &Image, kernel: &str, (ptxas, nvdisasm): &Tools) -> (Function, Report) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (ptx, cubin) = (folder.path().join("image.ptx"), folder.path().join("image.cubin"));
    let text = image.ptx(kernel).expect("the kernel's PTX");
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("kernel-build");
    let built = built.join(format!("ptxas-{}-{ARCH}", image.name));
    let said = if let Some((said, bytes)) = ptxas.assembled(ARCH, kernel, &text, &built) {
        std::fs::write(&cubin, bytes).expect("a file");
        said
    } else {
        std::fs::write(&ptx, &*text).expect("a file");
        ptxas.assemble(ARCH, &ptx, &cubin).unwrap_or_else(|error| panic!("{error}"))
    };
    // Without the analysis of the data flow, which changes nothing in the text, it takes two thirds of the time.
    let output = Command::new(nvdisasm).args(["-c", "-ndf"]).arg(&cubin).output();
    let output = output.expect("nvdisasm starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut functions = sass::parse(&String::from_utf8_lossy(&output.stdout));
    let function = functions.remove(kernel).unwrap_or_else(|| panic!("no SASS of {kernel}"));
    assert!(functions.is_empty(), "the module of {kernel} has {:?} too", functions.keys());
    (function, Report::parse(&said))
}

/// Every kernel of the image by name, disassembled once for all tests: half a second for each.
fn kernels(test: &str) -> Option<&'static [(&'static str, Function, Report)]> {
    static KERNELS: OnceLock<Vec<(&str, Function, Report)>> = OnceLock::new();
    let tools = tools(test)?;
    let image = &warpipe::GEMM_IMAGE;
    Some(KERNELS.get_or_init(|| {
        let all = image.kernels.par_iter().map(KernelMeta::name);
        let all = all.map(|name| (name, assemble(image, name, &tools)));
        all.map(|(name, (kernel, report))| (name, kernel, report)).collect()
    }))
}

/// The opcodes of which there are not equally many.
fn differences(typed: &[sass::Instruction], raw: &[sass::Instruction]) -> String {
    let (typed, raw) = (sass::histogram(typed), sass::histogram(raw));
    let opcodes: BTreeSet<_> = typed.keys().chain(raw.keys()).collect();
    let mut table = String::new();
    for opcode in opcodes {
        let count = |of: &BTreeMap<&str, usize>| of.get(*opcode).copied().unwrap_or(0);
        let (typed, raw) = (count(&typed), count(&raw));
        if typed != raw {
            let _ = writeln!(table, "    {opcode:32} typed {typed:3}  raw {raw:3}");
        }
    }
    if table.is_empty() { "    the same opcodes, equally often\n".to_owned() } else { table }
}

#[test]
fn the_main_loop_is_what_one_writes_by_hand() {
    let Some(tools) = tools("the_main_loop_is_what_one_writes_by_hand") else { return };
    let (typed, typed_report) = assemble(&warpipe::GEMM_IMAGE, TYPED, &tools);
    let (raw, raw_report) = assemble(&raw_gemm_image::IMAGE, RAW, &tools);
    assert_eq!((typed_report.faults(), raw_report.faults()), (String::new(), String::new()));

    let typed_loop = typed.main_loop().expect("a loop with HGMMA in the typed kernel");
    let raw_loop = raw.main_loop().expect("a loop with HGMMA in the raw kernel");
    let (typed_core, raw_core) = (sass::between_wgmmas(typed_loop), sass::between_wgmmas(raw_loop));
    println!("first to last HGMMA: typed {}, raw {}", typed_core.len(), raw_core.len());
    print!("{}", differences(typed_core, raw_core));
    println!("whole main loop: typed {}, raw {}", typed_loop.len(), raw_loop.len());
    print!("{}", differences(typed_loop, raw_loop));
    let start = |kernel: &Function| kernel.start().expect("a load").len();
    println!("before the first load: typed {}, raw {}", start(&typed), start(&raw));
    println!("whole kernel: typed {}, raw {}", typed.code.len(), raw.code.len());

    // One slot: 64 columns of A and B, 16 for each, for either half of the tile.
    assert_eq!((sass::wgmmas(typed_loop), sass::wgmmas(raw_loop)), (8, 8));
    // Where in the loop the ring's step stands, before the last HGMMA or behind it, is up to ptxas, and
    // changes with code elsewhere: the whole loop is what is compared.
    assert!(typed_loop.len() <= raw_loop.len(), "more instructions in the main loop");
    let usage = |report: &Report, kernel: &str| {
        let usage = report.kernels.iter().find(|usage| usage.kernel == kernel);
        let usage = usage.unwrap_or_else(|| panic!("ptxas says nothing of {kernel}"));
        (usage.registers, usage.stack, usage.spill_stores, usage.spill_loads)
    };
    assert_eq!(usage(&typed_report, TYPED), usage(&raw_report, RAW));
    assert_eq!(typed.with(&["USETMAXREG"]).len(), 2);
    // By role: what each gives up or takes.
    let budgets = |function: &Function| -> BTreeSet<String> {
        let all = function.with(&["USETMAXREG"]).into_iter();
        all.map(|text| text.rsplit(' ').next().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(budgets(&typed), BTreeSet::from(["0x28".to_owned(), "0xe8".to_owned()]));
    assert_eq!(budgets(&typed), budgets(&raw));
}

/// What must hold for every kernel that multiplies, not only for the one that was written twice.
#[test]
fn no_main_loop_moves_what_it_multiplies() {
    let Some(kernels) = kernels("no_main_loop_moves_what_it_multiplies") else { return };
    let gemms = kernels.iter().filter(|(name, kernel, report)| {
        assert_eq!(report.faults(), "", "{name}");
        let local = kernel.with(&["LDL", "STL"]);
        assert!(local.is_empty(), "{name} uses local memory: {local:?}");
        // Attention has a loop for each mask, with arithmetic between its products; what follows is about GEMMs.
        if name.starts_with("attention_") {
            assert!(sass::wgmmas(&kernel.code) > 0, "{name} has no wgmma");
            return false;
        }
        let Some(body) = kernel.main_loop() else {
            assert_eq!(sass::wgmmas(&kernel.code), 0, "{name} has wgmmas in no loop");
            return false;
        };
        // Four steps of 32 bytes along K, for each block of 64 rows that a warp group has of its own, or for
        // each half of the tile's columns, or for each part of the columns that is promoted.
        let instance = all_instances().find(|i| i.desc.meta.name() == *name);
        let parts = instance.map_or(1, |i| match i.kernel_schedule {
            KernelSchedule::SplitN if i.promotes => i.bn / sass::wgmma_columns(body).unwrap_or(64),
            KernelSchedule::SplitN => 2,
            // Each warp group has all rows.
            KernelSchedule::CooperativeByColumns => i.bm / 64,
            _ => i.bm / 64 / i.groups,
        });
        // Whole k tiles of promoted sums alternate between two accumulators, so the loop has two of them.
        let alternates =
            |i: &Instance| i.promotes && i.kernel_schedule == KernelSchedule::Cooperative;
        let k_tiles = if instance.is_some_and(alternates) { 2 } else { 1 };
        assert_eq!(sass::wgmmas(body), k_tiles * 4 * parts as usize, "{name}");
        // Sums stay where HGMMA has them, operands come through descriptors, and those are made in
        // the uniform registers that HGMMA reads them from.
        let moves = sass::with(body, &["LD", "ST", "STS", "LDG", "STG", "LDSM"]);
        assert!(moves.is_empty(), "{name} moves data in its main loop: {moves:?}");
        // A thread loads the scale factors of its two rows and of each unit of columns, or those of its columns and of all rows,
        // once for each k tile.
        let [units, own] = match instance {
            Some(i) if i.scale_granularity.is_none() => [0, 0],
            Some(i) if i.swap_ab => [1, i.bn / 4],
            Some(i) => [i.bn / unit(i.bn as usize) as u32, 2],
            None => [0, 0],
        }
        .map(|factors| k_tiles * factors as usize);
        let (factors, most) = (sass::with(body, &["LDS"]), units + own);
        assert!(factors.len() <= most, "{name} loads more than {most} factors: {factors:?}");
        // Those of units are the same in all lanes, so ptxas may keep them in uniform registers, too.
        let moves = sass::with(body, &["R2UR"]);
        assert!(moves.len() <= units, "{name} moves more than {units} factors: {moves:?}");
        let meets = sass::with(body, &["WARPSYNC", "BAR"]);
        assert!(meets.is_empty(), "{name} meets in its main loop: {meets:?}");
        name.starts_with("gemm_")
    });
    assert_eq!(gemms.count(), all_instances().count(), "every instance was looked at");
}

/// What a CTA does before its first load is time in which its SM does nothing. It waits for no access to
/// global memory, divides by nothing, and need not fetch its code from behind the main loop.
#[test]
fn nothing_long_stands_before_the_first_load() {
    let Some(kernels) = kernels("nothing_long_stands_before_the_first_load") else { return };
    let gemms = kernels.iter().filter(|(name, kernel, _)| {
        // The kernels that write tensor maps load no tiles.
        if !name.starts_with("gemm_") || name.starts_with("gemm_grouped_maps_") {
            return false;
        }
        let start = kernel.start().unwrap_or_else(|| panic!("{name} loads nothing"));
        assert!(
            start.len() <= 400,
            "{name} has {} instructions before its first load",
            start.len()
        );
        assert_eq!(sass::wgmmas(start), 0, "{name} has a main loop before its first load");
        // The sizes of groups lie in memory, and the host can't prepare a division by them.
        let grouped = name.starts_with("gemm_grouped_");
        let divides = sass::with(start, &["MUFU"]);
        assert!(grouped || divides.is_empty(), "{name} divides before its first load: {divides:?}");
        let mut waits = sass::with(start, &["MEMBAR"]);
        waits.retain(|text| !text.contains(".CTA"));
        let prefetches = sass::with(start, &["UTMAPF"]);
        // An MN-major tile has a box for each 64 of its rows.
        let instance = all_instances().find(|i| i.desc.meta.name() == *name);
        let boxes = |mn_major, rows: u32| if mn_major { rows as usize / 64 } else { 1 };
        let boxes = instance.map_or(2, |i| boxes(i.a_mn_major, i.bm) + boxes(i.b_mn_major, i.bn));
        assert_eq!(
            prefetches.len(),
            if grouped { 0 } else { boxes },
            "{name}: a loop of the boxes of A and of B, as it is written"
        );
        assert!(waits.is_empty(), "{name} waits for memory before its first load: {waits:?}");
        // Which slot, which box: what a warp shares stays in the uniform registers that TMA reads.
        let body = kernel.loading_loop().unwrap_or_else(|| panic!("{name} loads in no loop"));
        // ptxas does not know that what all lanes read from memory, the rows of a group, is the same.
        let moves = sass::with(body, &["R2UR", "SHFL", "LDL", "STL"][usize::from(grouped)..]);
        assert!(moves.is_empty(), "{name} moves coordinates in its loading loop: {moves:?}");
        true
    });
    assert_eq!(gemms.count(), all_instances().count(), "every instance was looked at");
}

/// The twin is a twin: the same result to the last bit, on the model.
#[test]
fn raw_and_typed_agree_on_the_model() {
    let device = Device::sim(SimConfig::default());
    // Two cluster tiles with residues in M, N and K; more slots than the ring has.
    let (m, n, k) = (300, 264, 328);
    let operand = |seed, count: u64| {
        let bytes = data::encode(&data::normal(seed, count as usize), Dtype::Bf16).expect("bf16");
        device.upload(&bytes).expect("a buffer")
    };
    let (a, b) = (operand(1, m * k), operand(2, n * k));
    let plans = twin::plans(&device, &twin::problem(m, n, k)).expect("plans");
    let results = plans.map(|plan| {
        let mut d = device.alloc((m * n * 2) as usize).expect("a buffer");
        d.fill(0xff).expect("poison");
        plan.run(&a, &b, None, &mut d, 1.5, 0.0).expect("a run");
        d.to_vec().expect("the result")
    });
    assert!(results[0] == results[1], "the two kernels differ");
    assert!(data::decode(&results[0], Dtype::Bf16).expect("bf16").iter().all(|x| x.is_finite()));
}
