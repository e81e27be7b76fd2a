//! The embedded image: small, and each kernel by itself.

use warpipe::GEMM_IMAGE;
use warpipe::isa::kernel::{Code, KernelCode, KernelMeta};

/// What the program may grow by.
const LIMIT: usize = 4_000_000;

#[test]
fn the_image_is_small() {
    let (bytes, kernels) = (GEMM_IMAGE.code_bytes(), GEMM_IMAGE.kernels.len());
    println!("{kernels} kernels, {bytes} bytes");
    assert!(bytes < LIMIT, "{kernels} kernels have {bytes} bytes, at most {LIMIT} are allowed");
    // What lets several times as many kernels in. An attention kernel has a loop for each mask, and twice as many seams.
    for (family, most) in [("gemm_", 16 << 10), ("attention_", 48 << 10)] {
        let of_family = GEMM_IMAGE.code.iter().filter(|code| code.kernel.starts_with(family));
        let size = |code: &KernelCode| match code.code {
            Code::Brotli { data, .. } => data.len(),
            _ => panic!("{} is not packed", code.kernel),
        };
        let sizes: Vec<usize> = of_family.map(size).collect();
        let mean = sizes.iter().sum::<usize>() / sizes.len();
        assert!(mean < most, "{mean} bytes per kernel of {family}, at most {most}");
    }
}

#[test]
fn each_kernel_is_one_module() {
    assert!(GEMM_IMAGE.code.len() >= GEMM_IMAGE.kernels.len());
    for name in GEMM_IMAGE.kernels.iter().map(KernelMeta::name) {
        let ptx = GEMM_IMAGE.ptx(name).unwrap_or_else(|e| panic!("{e}"));
        assert!(ptx.contains(".target sm_90a"), "{name}");
        assert!(ptx.contains(&format!(".visible .entry {name}(")), "{name}");
        assert_eq!(ptx.matches("\n.visible .entry ").count(), 1, "{name}");
    }
}

#[test]
fn nothing_is_recorded_by_kernels_that_are_not_built_for_it() {
    use warpipe::isa::trace::VARIABLE;
    for name in GEMM_IMAGE.kernels.iter().map(KernelMeta::name) {
        let ptx = GEMM_IMAGE.ptx(name).unwrap_or_else(|e| panic!("{e}"));
        assert!(!ptx.contains(VARIABLE), "{name}");
    }
}

#[cfg(feature = "trace")]
#[test]
fn each_traced_kernel_has_room_for_its_records() {
    use warpipe::TRACED_IMAGE;
    use warpipe::isa::trace::{BYTES, VARIABLE};
    let kernels: Vec<_> = TRACED_IMAGE.kernels.iter().map(KernelMeta::name).collect();
    assert!(kernels.len() >= 2, "{kernels:?}");
    for name in kernels {
        let ptx = TRACED_IMAGE.ptx(name).unwrap_or_else(|e| panic!("{e}"));
        let variable = format!(".visible .global .align 16 .b8 {VARIABLE}[{BYTES}];");
        assert_eq!(ptx.matches(&variable).count(), 1, "{name}");
        assert!(ptx.matches("%globaltimer").count() > 20, "{name}");
        // The place of a thread's next record, which nothing else may name.
        assert_eq!(
            ptx.matches(".reg .b64 warpipe_to; .reg .b32 warpipe_mask;").count(),
            1,
            "{name}"
        );
    }
}
