//! The zoo's kernels that are compiled for a GPU, launched as kernels: on the model, and on a GPU where there
//! is one.
#![allow(missing_docs)]

use host::{Device, Error, SimConfig};
use std::io::Write;
use zoo_gpu::{IMAGE, entries, launch};

fn model(seed: u64) -> Device {
    Device::sim(SimConfig { seed, ..SimConfig::default() })
}

/// The parameters arrive, and the shape is the one that the bug needs.
#[test]
fn the_model_finds_each_bug_in_the_kernel() {
    for entry in entries() {
        let found = (0..20).any(|seed| {
            let device = model(seed);
            let module = device.load(&IMAGE).expect("the image has all kernels");
            launch(&device, &module, entry, false)
                .unwrap_or_else(|e| panic!("{} without its bug, seed {seed}: {e}", entry.name));
            match launch(&device, &module, entry, true) {
                Ok(()) => false,
                Err(Error::Model(_)) => true,
                Err(other) => panic!("{}: {other}", entry.name),
            }
        });
        assert!(found, "{}: not found under 20 seeds", entry.name);
    }
}

#[test]
fn a_gpu_runs_each_kernel_without_its_bug() {
    let loaded = Device::cuda(0).and_then(|device| Ok((device.load(&IMAGE)?, device)));
    let (module, device) = match loaded {
        Ok(loaded) => loaded,
        Err(why) => {
            let required = std::env::var_os("WARPIPE_REQUIRE_GPU").is_some_and(|v| v == "1");
            assert!(!required, "WARPIPE_REQUIRE_GPU=1: {why}");
            let _ = writeln!(std::io::stderr(), "a_gpu_runs_each_kernel: skipped, {why}");
            return;
        }
    };
    for entry in entries() {
        launch(&device, &module, entry, false).unwrap_or_else(|e| panic!("{}: {e}", entry.name));
    }
}
