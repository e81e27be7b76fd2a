//! One image for several architectures.

use kernel_build::{Arch, Error, KernelBuilder, PtxasCheck};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// A build of `tests/fixtures/launch`.
fn launch(out: &str) -> (KernelBuilder, PathBuf) {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/launch");
    let out_dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("archs").join(out);
    (KernelBuilder::new(crate_dir).out_dir(&out_dir).ptxas(PtxasCheck::Off), out_dir)
}

#[test]
fn each_architecture_has_a_part() {
    let (builder, out) = launch("two");
    let builder = builder.arch(Arch::Sm90a).arch(Arch::Sm100a).arch(Arch::Sm90a);
    let image = builder.arch_feature(Arch::Sm100a, "more").build().unwrap();
    assert_eq!((image.arch, image.others.len()), ("sm_90a", 1));
    let other = &image.others[0];
    assert_eq!(other.arch, "sm_100a");
    assert!(image.ptx.contains(".target sm_90a") && other.ptx.contains(".target sm_100a"));

    // The feature of one architecture gave a kernel to its part alone.
    let names = |kernels: &[kernel_build::ptx::KernelPtx]| -> Vec<String> {
        let mut names: Vec<_> = kernels.iter().map(|kernel| kernel.kernel.clone()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&image.modules), ["bare", "everything"]);
    assert_eq!(names(&other.modules), ["bare", "everything", "more"]);

    // The expression beside the first part embeds the code of both.
    assert_eq!(other.rust_path, image.rust_path);
    assert_eq!(other.code_path, out.join("sm_100a/fixture_launch.br"));
    let rust = fs::read_to_string(&image.rust_path).unwrap();
    let (parts, own) = (rust.matches("arch: \"sm_").count(), rust.matches("others: ").count());
    assert_eq!((parts, own), (2, 2), "{rust}");
    for file in ["fixture_launch.br", "sm_100a/fixture_launch.br"] {
        assert!(rust.contains(&format!("include_bytes!({file:?})")), "{rust}");
        assert!(image.rust_path.with_file_name(file).is_file(), "{file}");
    }
    assert!(!out.join("sm_100a/fixture_launch.rs").exists());
}

/// The code of an architecture does not depend on what else the image has, nor on its place there.
#[test]
fn a_part_is_what_an_image_of_its_own_would_be() {
    let alone = launch("alone").0.build().unwrap();
    assert_eq!((alone.arch, alone.others.len()), ("sm_90a", 0));
    let both = launch("both").0.arch(Arch::Sm103a).arch(Arch::Sm90a).build().unwrap();
    assert_eq!(both.arch, "sm_103a");
    assert_eq!(both.others[0].ptx, alone.ptx);
    let bytes = |path: &Path| fs::read(path).unwrap();
    assert_eq!(bytes(&both.others[0].code_path), bytes(&alone.code_path));
}

#[test]
fn what_does_not_fit_together_is_one_line() {
    let refused = |builder: KernelBuilder| builder.build().unwrap_err();
    let of_no_part = refused(launch("none").0.arch_feature(Arch::Sm100a, "more"));
    assert!(matches!(of_no_part, Error::ArchFeature { .. }));
    assert_eq!(
        of_no_part.to_string(),
        "feature more is for sm_100a, and the build is for sm_90a: call arch for sm_100a too"
    );
    let both = launch("differ").0.arch(Arch::Sm90a).arch(Arch::Sm100a);
    let differ = refused(both.arch_feature(Arch::Sm100a, "wide"));
    assert_eq!(
        differ.to_string(),
        "kernel everything of sm_100a differs from that of sm_90a in its bounds or parameters: give one of them \
         another name"
    );
}
