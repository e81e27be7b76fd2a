//! The launch path of the GEMMs for Blackwell, on the model. tests/gpu_blackwell.rs of warpipe has the same on a GPU.

use crate::blackwell_cases::{product, small};
use gpu_kernels::sm100::INSTANCES;
use host::sm100::Plan;
use host::{Device, Error, SimConfig};
use isa::kernel::{Image, KernelMeta};
use std::sync::LazyLock;

/// As a build makes it: a part for a Hopper, which has other kernels, and one for Blackwell.
static IMAGE: LazyLock<Image> = LazyLock::new(|| {
    let kernels: Vec<KernelMeta> = INSTANCES.iter().map(|i| i.desc.meta).collect();
    let (name, code) = ("blackwell", &[]);
    let part =
        Image { name, arch: "sm_100a", code, kernels: kernels.leak(), ptxas: None, others: &[] };
    let others = Box::leak(Box::new([part]));
    Image { name, arch: "sm_90a", code, kernels: &[], ptxas: None, others }
});

fn model(seed: u64) -> Device {
    Device::sim(SimConfig { seed, ..SimConfig::default() })
}

fn line<T>(result: Result<T, Error>) -> String {
    let line = result.err().expect("must be refused").to_string();
    assert!(!line.contains('\n'), "{line}");
    line
}

#[test]
fn every_kernel_is_right_beyond_one_tile() {
    for (seed, instance) in INSTANCES.iter().enumerate() {
        let said = product(&model(seed as u64), &IMAGE, instance, small(instance), true);
        crate::gpu::say(&said.unwrap_or_else(|wrong| panic!("{wrong}")));
    }
}

/// One of each way to launch, with values that are rounded.
#[test]
fn normal_values_are_near_the_product() {
    let names = [
        "bf16_bf16_128x256_2x1",
        "e4m3_bf16_256x256_2sm",
        "bf16_bf16_128x256_1x1_clc",
        "128x128_mx",
        "nvf4_bf16_128x128",
        "256x128_2sm_mx",
        "nvf4_bf16_256x128_2sm",
    ];
    for name in names {
        let found = INSTANCES.iter().find(|i| i.desc.meta.name().ends_with(name)).unwrap();
        product(&model(1), &IMAGE, found, small(found), false).unwrap();
    }
}

#[test]
fn grids_are_those_of_the_scheduler() {
    let ctas = |name: &str, sms, size| {
        let found = INSTANCES.iter().find(|i| i.desc.meta.name().ends_with(name)).unwrap();
        let device = Device::sim(SimConfig { sms, ..SimConfig::default() });
        Plan::new(&device, &IMAGE, found, size).unwrap().ctas()
    };
    let size = [1000, 1000, 64];
    // 8 x 4 tiles of 128 x 256: a persistent grid has at most a CTA for each SM.
    assert_eq!(ctas("bf16_bf16_128x256_1x1", 8, size), 8);
    assert_eq!(ctas("bf16_bf16_128x256_1x1", 132, size), 32);
    // 4 x 4 tiles of pairs.
    assert_eq!(ctas("bf16_bf16_256x256_2sm", 8, size), 8);
    assert_eq!(ctas("bf16_bf16_256x256_2sm", 132, size), 32);
    // 4 x 8 tiles of pairs with block scales.
    assert_eq!(ctas("nvf4_bf16_256x128_2sm", 132, size), 64);
    // Launch control: all tiles, whatever the device has.
    assert_eq!(ctas("bf16_bf16_128x256_1x1_clc", 8, size), 32);
    assert_eq!(ctas("bf16_bf16_128x256_2x1_clc", 8, size), 32);
}

#[test]
fn what_does_not_fit_is_one_line() {
    let device = model(0);
    let [plain, mx] = ["bf16_bf16_128x256_1x1", "128x128_mx"]
        .map(|name| INSTANCES.iter().find(|i| i.desc.meta.name().ends_with(name)).unwrap());
    let said = line(Plan::new(&device, &IMAGE, plain, [128, 0, 64]));
    assert_eq!(
        said,
        "tiles of a product = 1 x 0 of 1 k tiles for 128 x 0 x 64 overflows: 1 to 2^30 CTAs and 1 to 2^30 k tiles are right"
    );
    assert!(line(Plan::new(&device, &IMAGE, plain, [u32::MAX; 3])).contains("2^30"));
    static EMPTY: Image =
        Image { name: "x", arch: "sm_90a", code: &[], kernels: &[], ptxas: None, others: &[] };
    let missing = line(Plan::new(&device, &EMPTY, plain, [128, 256, 64]));
    assert!(missing.starts_with("image x has no kernel gemm_sm100_bf16"), "{missing}");

    let plan = Plan::new(&device, &IMAGE, plain, [128, 256, 64]).unwrap();
    let (a, b) = (device.alloc_zeroed(128 * 128).unwrap(), device.alloc_zeroed(256 * 128).unwrap());
    let (short, mut d) = (device.alloc(64).unwrap(), device.alloc(128 * 512).unwrap());
    let stream = device.stream();
    assert_eq!(
        line(plan.run(&a, &short, None, &mut d, 1.0, &stream)),
        "GEMM operand B: 256 x 64 bf16 need 32768 bytes; the buffer has 64"
    );
    let said = line(plan.run(&a, &b, Some([&a, &b]), &mut d, 1.0, &stream));
    assert!(said.ends_with("applies no block scales; a run with None is right"), "{said}");
    let scaled = Plan::new(&device, &IMAGE, mx, [128, 128, 128]).unwrap();
    assert_eq!(scaled.scale_bytes(), Some([512, 512]));
    let (a, mut d) = (device.alloc_zeroed(128 * 128).unwrap(), device.alloc(128 * 256).unwrap());
    let said = line(scaled.run(&a, &a, None, &mut d, 1.0, &stream));
    assert!(said.contains("applies block scales"), "{said}");
    let said = line(scaled.run(&a, &a, Some([&short, &short]), &mut d, 1.0, &stream));
    assert!(said.contains("need 512 bytes; the buffer has 64"), "{said}");
    let [nvf4] = ["nvf4_bf16_128x128"]
        .map(|name| INSTANCES.iter().find(|i| i.desc.meta.name().ends_with(name)).unwrap());
    let said = line(Plan::new(&device, &IMAGE, nvf4, [128, 128, 257]));
    assert!(said.ends_with("rows of K = 257 end within one; a multiple of 32 is right"), "{said}");
    let packed = Plan::new(&device, &IMAGE, nvf4, [128, 130, 288]).unwrap();
    // Two k tiles of 256 values, and one and two blocks of rows.
    assert_eq!(packed.scale_bytes(), Some([4096, 8192]));
    let said = line(packed.run(&a, &a, Some([&a, &a]), &mut d, 1.0, &stream));
    assert!(
        said.contains("operand A: 128 x 144 u8 need 18432 bytes; the buffer has 16384"),
        "{said}"
    );
    let other = model(0);
    let said = line(plan.run(&other.alloc(128 * 128).unwrap(), &b, None, &mut d, 1.0, &stream));
    assert!(said.contains("model"), "{said}");
}
