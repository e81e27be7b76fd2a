//! The GEMMs for Blackwell on a GPU, compared with f64. **No chip has ever run them.** The model does, in
//! host/tests/integration/blackwell.rs.
//!
//! Without a Blackwell GPU the test prints a line and passes. With `WARPIPE_REQUIRE_GPU=blackwell` it fails;
//! `WARPIPE_REQUIRE_GPU=1`, which asks for any GPU, does not ask for this one.
//!
//! Each kernel runs in a process of its own: one that traps takes its context along, and one that hangs is ended.

#[path = "common/blackwell.rs"]
mod cases;

use gpu_kernels::sm100::{INSTANCES, Instance};
use host::{Device, DeviceInfo, SimConfig};
use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use warpipe::{GEMM_IMAGE, gpu_kernels, host, isa};

/// Names the kernel that a process runs.
const KERNEL: &str = "WARPIPE_BLACKWELL_KERNEL";
/// A process that takes longer hangs.
const TIME: Duration = Duration::from_mins(3);

/// The first Blackwell GPU, or why there is none.
fn blackwell() -> Result<DeviceInfo, String> {
    let devices = host::cuda_devices().map_err(|e| e.to_string())?;
    let runs = |gpu: &DeviceInfo| matches!(gpu.arch(), Some("sm_100a" | "sm_103a"));
    let have: Vec<_> = devices
        .iter()
        .map(|gpu| format!("{} has {}.{}", gpu.name, gpu.compute.0, gpu.compute.1))
        .collect();
    let have = have.join(", ");
    let found = devices.into_iter().find(runs);
    found.ok_or_else(|| format!("no GPU of compute capability 10.0 or 10.3: {have}"))
}

/// A line that the test harness does not swallow.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[test]
fn the_image_has_each_kernel_for_both_architectures() {
    let table: BTreeSet<_> = INSTANCES.iter().map(|i| i.desc.meta.name()).collect();
    for arch in ["sm_100a", "sm_103a"] {
        let part = GEMM_IMAGE.part(arch).expect("the build has made it");
        let names = part.kernels.iter().map(isa::kernel::KernelMeta::name);
        // The host does not launch kernels of 4 bits.
        let (of_4_bits, have): (BTreeSet<_>, BTreeSet<_>) =
            names.partition(|name| name.contains("nvf4"));
        assert_eq!(have, table, "{arch}");
        assert_eq!(of_4_bits.len(), 1, "{arch}");
        for kernel in &table {
            let ptx = part.ptx(kernel).unwrap();
            assert!(ptx.contains(&format!(".target {arch}")), "{arch}, {kernel}");
        }
    }
    // The host's descriptions are those of the image, and of no kernel for a Hopper.
    let module = Device::sim(SimConfig::default()).load(&GEMM_IMAGE).unwrap();
    for Instance { desc, .. } in INSTANCES {
        module.check(desc).unwrap();
        assert!(GEMM_IMAGE.kernels.iter().all(|k| k.name != desc.meta.name));
    }
}

#[test]
fn each_kernel_is_right() {
    let gpu = match blackwell() {
        Ok(gpu) => gpu,
        Err(why) => {
            let asked = std::env::var_os("WARPIPE_REQUIRE_GPU").is_some_and(|v| v == "blackwell");
            assert!(!asked, "WARPIPE_REQUIRE_GPU=blackwell: {why}");
            say(&format!("each_kernel_is_right: skipped, {why}"));
            return;
        }
    };
    if let Ok(name) = std::env::var(KERNEL) {
        let device = Device::cuda(gpu.index).unwrap_or_else(|e| panic!("{e}"));
        return run(&device, &name);
    }
    say(&format!("{gpu:?}"));
    let wrong: Vec<_> = INSTANCES.iter().filter_map(|i| alone(i.desc.meta.name()).err()).collect();
    let all = INSTANCES.len();
    say(&format!("{} of {all} kernels are right", all - wrong.len()));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// All products of a kernel. The small ones come first: what they get wrong is easier to find.
fn run(device: &Device, name: &str) {
    let instance = INSTANCES.iter().find(|i| i.desc.meta.name() == name).expect("of the table");
    for size in [cases::small(instance), cases::large(instance)] {
        for whole in [true, false] {
            let said = cases::product(device, &GEMM_IMAGE, instance, size, whole);
            say(&said.unwrap_or_else(|wrong| panic!("{wrong}")));
        }
    }
}

/// Runs a kernel in a process of its own.
fn alone(name: &str) -> Result<(), String> {
    let mut child = Command::new(std::env::current_exe().map_err(|e| e.to_string())?)
        .args(["--exact", "each_kernel_is_right", "--nocapture"])
        .env(KERNEL, name)
        .stdout(Stdio::null())
        .spawn()
        .map_err(|e| format!("{name}: {e}"))?;
    let start = Instant::now();
    loop {
        match child.try_wait().map_err(|e| format!("{name}: {e}"))? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(format!("{name}: {status}")),
            None if start.elapsed() > TIME => {
                // It is this test's own child.
                let ended = child.kill().and_then(|()| child.wait());
                return Err(format!("{name}: no end after {} s ({ended:?})", TIME.as_secs()));
            }
            None => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}
