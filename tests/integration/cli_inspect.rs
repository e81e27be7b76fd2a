//! `warpipe inspect` and the kernel table of `warpipe doctor`.

use crate::common::{Folder, outcome, refused, warpipe};
use serde_json::Value;
use std::io::Write;
use warpipe::GEMM_IMAGE;
use warpipe::gpu_kernels::gemm::grouped::ARRAY_INSTANCES;
use warpipe::gpu_kernels::gemm::table::all_instances;
use warpipe_inspect::{Part, Tools, inspect};

const GEMM: &str = "gemm_bf16_bf16_128x256_2x1";
/// The kernel crate of the first example.
const FIRST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/first/kernels");

/// Says on which machine a test is skipped: a bundle runs where there is no cargo and no source.
fn without_cargo() -> bool {
    let bundle = std::env::var_os("WARPIPE_BIN").is_some();
    if bundle {
        eprintln!("skipped: there is no cargo where a bundle runs");
    }
    bundle
}

fn said(arguments: &[&str]) -> String {
    let (code, stdout, stderr) = outcome(&warpipe(arguments));
    assert_eq!((code, stderr.as_str()), (0, ""), "{arguments:?}");
    stdout
}

#[test]
fn the_page_of_a_gemm() {
    let page = said(&["inspect", "bf16_bf16_128x256_2x1", "--no-tools"]);
    let lines: Vec<&str> = page.lines().collect();
    for line in [
        "gemm_bf16_bf16_128x256_2x1, sm_90a",
        "  threads          384, 12 warps",
        "  cluster          2 along M x 1 along N, 2 CTAs",
        "  dependent grid   yes (programmatic dependent launch)",
        // Written from the types in gpu-kernels/src/gemm: 128 x 64 and 256 x 64 elements of 2 bytes.
        "    32768    196608    4 slots of 49152: bf16 128 x 64, bf16 256 x 64",
        "   229376        32    4 mbarriers \"full\"",
        // Two warp groups of two CTAs.
        "       4  main loop.empty  4: each warp group that reads, in each CTA that gets the slot's data",
        "   0      384  the CTA",
        "   3      128  Math2, warp group 1",
        "  Load        0 to 3      128          40    5120",
        "  Math2      4 to 11      256         232   59392",
        "CTAs per SM: 1, limited by shared memory and registers",
    ] {
        assert!(lines.contains(&line), "{line:?} is not in:\n{page}");
    }
}

#[test]
fn json_is_the_same_page() {
    let json: Value =
        serde_json::from_str(&said(&["inspect", GEMM, "--no-tools", "--json"])).expect("JSON");
    assert_eq!(json["kernel"], GEMM);
    assert_eq!(json["cta"]["roles"][1]["registers"], 232);
    assert_eq!(json["params"][0]["name"], "a");
    assert_eq!(json["occupancy"]["ctas"], 1);
    assert_eq!(json["sass"], Value::Null);
    assert_eq!(json["missing"].as_array().map(Vec::len), Some(1));
}

/// The plan that the image states is the one that the host launches, and its regions fill it without overlap.
#[test]
fn every_kernel_of_the_image_describes_itself() {
    for meta in GEMM_IMAGE.kernels {
        let name = meta.name();
        let ptx = GEMM_IMAGE.ptx(name).expect("code");
        let page = inspect(&ptx, name, &Tools::none()).unwrap_or_else(|e| panic!("{e}"));
        let facts = &page.facts;
        assert_eq!(facts.threads, Some(meta.threads), "{name}");
        assert_eq!(
            (facts.cluster, facts.smem_bytes),
            (meta.cluster, Some(meta.smem_bytes)),
            "{name}"
        );
        assert_eq!(facts.params.len(), meta.params().len(), "{name}");
        assert!(facts.params.iter().all(|param| !param.name.is_empty()), "{name}");
        let Some(cta) = &facts.cta else { continue };
        let groups: u32 = cta.roles.iter().map(|role| role.groups).sum();
        assert_eq!(128 * groups, meta.threads, "{name}");
        let mut end = 0;
        for region in &cta.regions {
            assert!(region.offset >= end, "{name}: {region:?} overlaps");
            end = region.offset + region.bytes;
            let mut inside = 0;
            for part in &region.parts {
                let (offset, bytes) = match part {
                    Part::Tiles { offset, count, tiles, .. } => {
                        (*offset, count * tiles.iter().map(|tile| tile.bytes).sum::<u32>())
                    }
                    Part::Bytes { offset, bytes, .. } => (*offset, *bytes),
                    Part::Mbarriers { offset, count, .. } => (*offset, 8 * count),
                    Part::Named { .. } => continue,
                };
                assert_eq!(offset, inside, "{name}: {region:?}");
                inside += bytes;
            }
            assert_eq!(inside, region.bytes, "{name}: {region:?}");
        }
        assert_eq!(end, meta.smem_bytes, "{name}");
    }
    for instance in all_instances() {
        let name = instance.desc.meta.name();
        let ptx = GEMM_IMAGE.ptx(name).expect("code");
        let page = inspect(&ptx, name, &Tools::none()).unwrap_or_else(|e| panic!("{e}"));
        let cta = page.facts.cta.expect("a GEMM takes a Cta");
        assert_eq!(cta.cluster, [instance.cluster_m, instance.cluster_n], "{name}");
        let slots = cta.regions.iter().find_map(|region| match &region.parts[..] {
            // Scale factors lie between a ring's slots and its barriers.
            [Part::Tiles { count, .. }, rest @ ..]
                if region.name == "main loop"
                    && rest.iter().any(|part| matches!(part, Part::Mbarriers { .. })) =>
            {
                Some(*count)
            }
            _ => None,
        });
        assert_eq!(slots, Some(instance.stages), "{name}");
    }
}

#[test]
fn ptx_from_elsewhere_says_what_it_says() {
    let folder = Folder::new();
    folder.bytes(
        "k.ptx",
        b".version 8.0\n.target sm_90a\n.address_size 64\n\n.visible .entry scale(\n\t.param .u64 p,\n\
          \t.param .f32 a\n)\n.maxntid 128, 1, 1\n.minnctapersm 2\n{\n\t.shared .align 16 .b8 s[512];\n\
          \tbar.sync 0;\n\tret;\n}\n",
    );
    let file = folder.arg("k.ptx");
    assert_eq!(said(&["inspect", "--image", &file]), "scale\n");
    let page = said(&["inspect", "scale", "--image", &file, "--no-tools"]);
    for words in [
        "threads          128, 4 warps",
        "512 bytes declared; dynamic: not stated",
        "CTA and cluster barriers         1  bar.sync 1",
        "CTAs per SM: not known",
        "the PTX has no comment of kernel-build",
    ] {
        assert!(page.contains(words), "{words:?} is not in:\n{page}");
    }
}

#[test]
fn bad_input_is_one_line() {
    let folder = Folder::new();
    folder.bytes("text", b"fn main() {}");
    folder.bytes("damaged.ptx", b".version 8.0\n.target sm_90a\n.visible .entry k(\n{\n");
    let file = |name| folder.arg(name);
    refused(&["inspect", "nothing"], &["no kernel nothing", "there are"]);
    refused(&["inspect", "128x256_2x1"], &["kernels end in 128x256_2x1", GEMM]);
    refused(&["inspect", "k", "--image", &file("absent")], &["cannot read", "absent"]);
    refused(&["inspect", "k", "--image", &file("text")], &["not a PTX text"]);
    refused(&["inspect", "k", "--image", &file("damaged.ptx")], &["PTX, line"]);
    refused(&["inspect", "k", "--build", ".", "--image", "x"], &["cannot be used with"]);
    refused(&["inspect", "k", "--features", "a"], &["--build"]);
    if !without_cargo() {
        refused(&["inspect", "k", "--build", &file("absent")], &["no kernel crate"]);
    }
}

/// With ptxas and nvdisasm: no spills, and loops with HGMMA and UTMALDG.
#[test]
fn the_tools_add_registers_and_main_loops() {
    let page = said(&["inspect", GEMM, "--json"]);
    let json: Value = serde_json::from_str(&page).expect("JSON");
    let Value::Object(sass) = &json["sass"] else {
        let required = std::env::var_os("WARPIPE_REQUIRE_PTXAS").is_some_and(|value| value == "1");
        assert!(!required, "WARPIPE_REQUIRE_PTXAS=1: {}", json["missing"]);
        let _ = writeln!(std::io::stderr(), "skipped: {}", json["missing"]);
        return;
    };
    assert_eq!(sass["registers"], 168);
    assert_eq!((&sass["spill_stores"], &sass["stack"]), (&0.into(), &0.into()));
    let loops = sass["loops"].as_array().expect("loops");
    // Four wgmmas of K = 16 for each half of a k tile of 64.
    let with =
        |opcode: &str| loops.iter().find(|l| l["opcode"] == opcode).map(|l| l["count"].clone());
    assert_eq!(with("HGMMA"), Some(8.into()), "{page}");
    assert_eq!(with("UTMALDG"), Some(2.into()), "{page}");
}

/// The lines beside the instructions are those of the kernel's own file, not those of the instructions' functions.
#[test]
fn lines_are_those_of_the_kernel() {
    if without_cargo() {
        return;
    }
    let page = said(&["inspect", "scale", "--build", FIRST, "--json"]);
    let json: Value = serde_json::from_str(&page).expect("JSON");
    if json["sass"].is_null() {
        let required = std::env::var_os("WARPIPE_REQUIRE_PTXAS").is_some_and(|value| value == "1");
        assert!(!required, "WARPIPE_REQUIRE_PTXAS=1: {}", json["missing"]);
        let _ = writeln!(std::io::stderr(), "skipped: {}", json["missing"]);
        return;
    }
    assert!(page.contains("arrived.wait()"), "{page}");
}

#[test]
fn the_doctor_lists_kernels_as_a_table() {
    let text = said(&["doctor", "--kernels"]);
    let head = text.lines().position(|line| line.contains("A, B  ")).expect("the families' head");
    assert!(text.lines().nth(head + 1).is_some_and(|line| line.contains("bf16")), "{text}");
    let rows = text.lines().filter(|line| line.trim_start().starts_with("gemm_")).count();
    // Each kernel for pointer arrays has one that writes its tensor maps.
    assert_eq!(rows, all_instances().count() + ARRAY_INSTANCES.len());
    let column = |name: &str| {
        let row = text.lines().find(|line| line.contains(name)).expect("a row");
        row.find(" x ").expect("a tile")
    };
    // Aligned: the tiles of names of different lengths stand in one column.
    assert_eq!(column("gemm_bf16_bf16_128x256_2x1 "), column("gemm_f16_f16_128x256_2x1 "));
    let json: Value = serde_json::from_str(&said(&["doctor", "--json"])).expect("JSON");
    let image =
        json["findings"].as_array().expect("findings").iter().find(|f| f["what"] == "image");
    let families = image.expect("the image")["families"].as_array().expect("families").clone();
    let kernels: u64 = families.iter().filter_map(|f| f["kernels"].as_u64()).sum();
    assert_eq!(kernels, GEMM_IMAGE.kernels.len() as u64);
}
