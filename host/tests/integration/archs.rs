//! GPUs of several generations: what a device takes of an image, and what it refuses.
//!
//! No machine has all of them. A child process finds a driver that does nothing: it says what compute capability its GPU
//! has, and refuses a module for another one.

use host::{Device, Error, SimConfig};
use isa::kernel::{Code, Image, KernelCode, KernelDesc, KernelMeta, LaunchFacts, MAX_PARAMS};
use std::path::Path;
use std::process::Command;

/// Names the compute capability of the driver's GPU.
const FAKE: &str = "WARPIPE_FAKE_GPU";
/// The driver, in C.
const DRIVER: &str = include_str!("../../../python/tests/fake_driver.c");

const fn kernel(name: &str) -> KernelDesc {
    unsafe fn entry(_: &[*const u8]) {}
    let facts = LaunchFacts { threads: 32, min_ctas: 1, cluster: [1; 3], smem_bytes: 0 };
    KernelDesc { meta: KernelMeta::new(name, facts, false, &[]), names: [""; MAX_PARAMS], entry }
}
static EVERYWHERE: KernelDesc = kernel("everywhere");
static WGMMA: KernelDesc = kernel("wgmma");
static TCGEN05: KernelDesc = kernel("tcgen05");

/// Code that says only what it is for.
const fn code(kernel: &'static str, ptx: &'static str) -> KernelCode {
    KernelCode { kernel, code: Code::Ptx(ptx) }
}
const SM90: &str = ".version 8.3\n.target sm_90a\n";
const SM100: &str = ".version 8.6\n.target sm_100a\n";
const SM103: &str = ".version 8.8\n.target sm_103a\n";

static HOPPER: Image = Image {
    name: "parts",
    arch: "sm_90a",
    code: &[code("everywhere", SM90), code("wgmma", SM90)],
    kernels: &[EVERYWHERE.meta, WGMMA.meta],
    ptxas: None,
    others: &[],
};
static BLACKWELL: Image = Image {
    arch: "sm_100a",
    code: &[code("everywhere", SM100), code("tcgen05", SM100)],
    kernels: &[EVERYWHERE.meta, TCGEN05.meta],
    ..HOPPER
};
static ULTRA: Image = Image {
    arch: "sm_103a",
    code: &[code("everywhere", SM103), code("tcgen05", SM103)],
    ..BLACKWELL
};
static ALL: Image = Image { others: &[BLACKWELL, ULTRA], ..HOPPER };

fn line<T>(result: Result<T, Error>) -> String {
    let line = result.err().expect("must be refused").to_string();
    assert!(!line.contains('\n'), "{line}");
    line
}

/// Loads the image and launches the kernel.
fn launch(device: &Device, image: &'static Image, desc: &KernelDesc) -> Result<(), Error> {
    device.launch(&device.load(image)?, desc, [1; 3], &[], &device.stream())
}

#[test]
fn the_model_runs_the_kernels_of_all_parts() {
    let device = Device::sim(SimConfig::default());
    for desc in [&EVERYWHERE, &WGMMA, &TCGEN05] {
        launch(&device, &ALL, desc).unwrap();
    }
    launch(&device, &ULTRA, &TCGEN05).unwrap();
    assert_eq!(
        line(launch(&device, &HOPPER, &TCGEN05)),
        "image parts has no kernel tcgen05; it has: everywhere, wgmma"
    );
}

#[test]
fn a_gpu_takes_the_part_for_it_and_no_other() {
    if let Ok(compute) = std::env::var(FAKE) {
        return on_a_gpu_of(&compute);
    }
    let folder = std::env::temp_dir().join(format!("warpipe-fake-gpu-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    if compile(&folder) {
        for compute in ["9.0", "10.0", "10.3", "8.0", "12.0"] {
            let name = "archs::a_gpu_takes_the_part_for_it_and_no_other";
            let status = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", name])
                .envs([(FAKE, compute.as_ref()), ("LD_LIBRARY_PATH", folder.as_os_str())])
                .status();
            assert!(status.unwrap().success(), "compute capability {compute}");
        }
    } else {
        crate::gpu::say("a_gpu_takes_the_part_for_it_and_no_other: skipped, no C compiler");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// Compiles the driver. Without a compiler there is none.
fn compile(folder: &Path) -> bool {
    let (source, library) = (folder.join("driver.c"), folder.join("libcuda.so.1"));
    std::fs::write(&source, DRIVER).unwrap();
    let mut cc = Command::new("cc");
    match cc.args(["-shared", "-fPIC", "-w", "-o"]).args([library, source]).status() {
        Ok(status) => {
            assert!(status.success(), "cc: {status}");
            true
        }
        Err(_) => false,
    }
}

/// The child's part.
fn on_a_gpu_of(compute: &str) {
    let image_of = |part: &'static Image| line(Device::cuda(0).unwrap().load(part).map(|_| ()));
    let arch = match compute {
        "9.0" => "sm_90a",
        "10.0" => "sm_100a",
        "10.3" => "sm_103a",
        other => {
            assert_eq!(
                line(Device::cuda(0)),
                format!(
                    "device 0 (FAKE) has compute capability {other}; images are for 9.0 (H100, H200, H20, GH200), \
                     10.0 (B200, GB200), 10.3 (B300, GB300)"
                )
            );
            assert!(Device::auto().is_sim());
            return;
        }
    };
    let device = Device::cuda(0).unwrap();
    assert!(device.describe().contains(arch.trim_end_matches('a')), "{}", device.describe());
    assert_eq!(device.info().and_then(host::DeviceInfo::arch), Some(arch));

    // The driver takes code for its GPU alone, so these launches show which part was taken.
    launch(&device, &ALL, &EVERYWHERE).unwrap();
    let (own, foreign, archs) = if arch == "sm_90a" {
        (&WGMMA, &TCGEN05, "sm_100a, sm_103a")
    } else {
        (&TCGEN05, &WGMMA, "sm_90a")
    };
    launch(&device, &ALL, own).unwrap();
    assert_eq!(
        line(launch(&device, &ALL, foreign)),
        format!(
            "kernel {} of image parts is for {archs}; this device runs {arch}",
            foreign.meta.name()
        )
    );
    for part in [&HOPPER, &BLACKWELL, &ULTRA] {
        if part.arch == arch {
            launch(&device, part, own).unwrap();
            continue;
        }
        assert_eq!(
            image_of(part),
            format!(
                "image parts has code for {}; device 0 (FAKE), of compute capability {compute}, runs {arch}",
                part.arch
            )
        );
    }

    // Most programs have images for a Hopper alone.
    let auto = Device::auto();
    assert_eq!(auto.is_sim(), arch != "sm_90a");
    if auto.is_sim() {
        let (why, told) = ("there is no sm_90 GPU, and FAKE (device 0, ", auto.describe());
        assert!(told.contains(why) && told.contains("is not chosen"), "{told}");
    }
}
