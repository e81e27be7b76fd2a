//! The GEMMs for Blackwell on a GPU, compared with f64. **No chip has ever run them.** The model does, in
//! host/tests/integration/blackwell.rs.
//!
//! Without a Blackwell GPU the test prints a line and passes. With `WARPIPE_REQUIRE_GPU=blackwell` it fails;
//! `WARPIPE_REQUIRE_GPU=1`, which asks for any GPU, does not ask for this one.
//!
//! Each kernel runs in a process of its own: one that traps takes its context along, and one that hangs is ended.

#[path = "common/blackwell.rs"]
mod cases;
#[path = "common/blackwell_gpu.rs"]
mod gpu;

use gpu::{alone, say, wanted};
use gpu_kernels::sm100::{INSTANCES, Instance};
use host::{Device, SimConfig};
use std::collections::BTreeSet;
use warpipe::{GEMM_IMAGE, gpu_kernels, host, isa};

const TEST: &str = "each_kernel_is_right";
/// Names the kernel that a process runs.
const KERNEL: &str = "WARPIPE_BLACKWELL_KERNEL";
#[test]
fn the_image_has_each_kernel_for_both_architectures() {
    let table: BTreeSet<_> = INSTANCES.iter().map(|i| i.desc.meta.name()).collect();
    for arch in ["sm_100a", "sm_103a"] {
        let part = GEMM_IMAGE.part(arch).expect("the build has made it");
        let have: BTreeSet<_> = part.kernels.iter().map(isa::kernel::KernelMeta::name).collect();
        assert_eq!(have, table, "{arch}");
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
    let Some(gpu) = wanted(TEST) else { return };
    if let Ok(name) = std::env::var(KERNEL) {
        let device = Device::cuda(gpu.index).unwrap_or_else(|e| panic!("{e}"));
        return run(&device, &name);
    }
    say(&format!("{gpu:?}"));
    let wrong: Vec<_> =
        INSTANCES.iter().filter_map(|i| alone(TEST, KERNEL, i.desc.meta.name()).err()).collect();
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
