//! The litmus kernels for Blackwell on a GPU, judged by the manual. **No chip has ever run them.** The model does, in
//! tests/integration/blackwell.rs.
//!
//! Without a Blackwell GPU the test prints a line and passes. With `WARPIPE_REQUIRE_GPU=blackwell` it fails;
//! `WARPIPE_REQUIRE_GPU=1`, which asks for any GPU, does not ask for this one.
//!
//! Each litmus runs in a process of its own: one that traps takes its context along, and one that hangs is ended.
#![allow(missing_docs)]

#[path = "../../tests/common/blackwell_gpu.rs"]
mod gpu;

use conformance::blackwell::{ALL, kernels};
use conformance::report::{Row, blackwell_on_chip, blackwell_on_model};
use conformance::{Bench, blackwell_image};
use gpu::{alone, say, wanted};
use host::Device;
use std::collections::BTreeSet;

const TEST: &str = "the_chip_agrees_with_the_manual";
/// Names the litmus that a process runs.
const LITMUS: &str = "WARPIPE_BLACKWELL_LITMUS";

#[test]
fn the_image_has_each_kernel_for_both_architectures() {
    let all = kernels();
    let want: BTreeSet<_> = all.iter().map(isa::kernel::KernelMeta::name).collect();
    for arch in ["sm_100a", "sm_103a"] {
        let part = blackwell_image().part(arch).expect("the build has made it");
        let have: BTreeSet<_> = part.kernels.iter().map(isa::kernel::KernelMeta::name).collect();
        assert_eq!(have, want, "{arch}");
        for kernel in &want {
            let ptx = part.ptx(kernel).expect("PTX");
            assert!(ptx.contains(&format!(".target {arch}")), "{arch}, {kernel}");
        }
    }
    // The descriptions of the host are those of the image.
    for litmus in ALL {
        blackwell_on_model(litmus, 0).unwrap_or_else(|e| panic!("{e}"));
    }
}

#[test]
fn the_chip_agrees_with_the_manual() {
    let Some(gpu) = wanted(TEST) else { return };
    if let Ok(name) = std::env::var(LITMUS) {
        let litmus = ALL.iter().find(|litmus| litmus.name == name).expect("a litmus");
        let chip = Device::cuda(gpu.index).and_then(Bench::blackwell);
        let chip = chip.unwrap_or_else(|e| panic!("{e}"));
        let row: Row = blackwell_on_chip(litmus, &chip).unwrap_or_else(|e| panic!("{e}"));
        say(&row.line());
        return assert_eq!(row.comparison.disagreements, 0, "{name}");
    }
    say(&format!("{gpu:?}"));
    let wrong: Vec<_> =
        ALL.iter().filter_map(|litmus| alone(TEST, LITMUS, litmus.name).err()).collect();
    say(&format!("{} of {} litmuses agree with the manual", ALL.len() - wrong.len(), ALL.len()));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
