//! The litmus kernels for Blackwell: on the model, against the manual; and before NVIDIA's assembler. No chip has ever run
//! them.

use conformance::blackwell::{ALL, kernels};
use conformance::report::{OnModel, blackwell_on_model};
use kernel_build::{Arch, KernelBuilder};
use std::path::{Path, PathBuf};

/// Schedules of the model.
const SEEDS: u64 = 20;

#[test]
fn the_model_agrees_with_the_manual() {
    let mut claimed = 0;
    for litmus in ALL {
        for seed in 0..SEEDS {
            let log = match blackwell_on_model(litmus, seed) {
                Ok(OnModel::Ran(log)) => log,
                Ok(OnModel::Refused(rule)) => panic!("{}: {}", litmus.name, rule.code),
                Err(line) => panic!("{line}"),
            };
            assert!(log.seen.len() > 12, "{}: {} values", litmus.name, log.seen.len());
            if litmus.name.starts_with("clusterlaunchcontrol") {
                claimed += log.seen.last().map_or(0, |seen| seen.have);
            }
        }
    }
    assert!(claimed > 0, "nobody claimed anything");
}

#[test]
fn the_kernels_assemble() {
    if std::env::var_os("WARPIPE_BIN").is_some() {
        eprintln!("skipped: there is no rustc where a bundle runs");
        return;
    }
    for arch in [Arch::Sm100a, Arch::Sm103a] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("blackwell");
        let out =
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("litmus-{}", arch.name()));
        let image = KernelBuilder::new(folder).out_dir(&out).arch(arch).build();
        let image = image.unwrap_or_else(|e| panic!("{}: {e}", arch.name()));
        match &image.ptxas {
            Some((_, report)) => assert_eq!(report.kernels.len(), kernels().len()),
            None => println!("no ptxas: only the PTX is built"),
        }
    }
}
