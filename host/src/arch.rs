//! Which code runs on which GPU.
//!
//! Every image has instructions of one generation (wgmma, tcgen05), so that its targets end in `a`: such code runs on the
//! compute capability that it was compiled for, and on no newer one.

use crate::error::Error;
use isa::kernel::Image;

/// The architectures of images: the compute capability that runs one, and the GPUs that have it.
const ARCHS: [((i32, i32), &str, &str); 3] = [
    ((9, 0), "sm_90a", "H100, H200, H20, GH200"),
    ((10, 0), "sm_100a", "B200, GB200"),
    ((10, 3), "sm_103a", "B300, GB300"),
];

/// The PTX target that GPUs of a compute capability run, if there are images for any.
pub(crate) fn of_compute(compute: (i32, i32)) -> Option<&'static str> {
    ARCHS.iter().find(|(of, ..)| *of == compute).map(|(_, arch, _)| *arch)
}

/// What [`of_compute`] takes, in words: `9.0 (H100, …), …`.
pub(crate) fn in_words() -> String {
    let one =
        |((major, minor), _, gpus): &((i32, i32), &str, &str)| format!("{major}.{minor} ({gpus})");
    ARCHS.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The part of an image for a device that runs `arch`. `device` names it in the error.
pub(crate) fn part(
    image: &'static Image,
    arch: &'static str,
    device: impl FnOnce() -> String,
) -> Result<&'static Image, Error> {
    image.part(arch).ok_or_else(|| Error::ImageArch {
        image: image.name,
        archs: image.archs(),
        device: device(),
        arch,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compute_capability_runs_one_architecture_or_none() {
        assert_eq!(of_compute((9, 0)), Some("sm_90a"));
        assert_eq!(of_compute((10, 0)), Some("sm_100a"));
        assert_eq!(of_compute((10, 3)), Some("sm_103a"));
        // Ampere, Ada, Thor, and the Blackwell GPUs without tcgen05.
        for compute in [(7, 5), (8, 0), (8, 9), (9, 1), (10, 1), (11, 0), (12, 0), (12, 1)] {
            assert_eq!(of_compute(compute), None, "{compute:?}");
        }
        assert_eq!(
            in_words(),
            "9.0 (H100, H200, H20, GH200), 10.0 (B200, GB200), 10.3 (B300, GB300)"
        );
    }

    #[test]
    fn a_device_takes_its_part_or_refuses_in_one_line() {
        const HOPPER: Image =
            Image { name: "x", arch: "sm_90a", code: &[], kernels: &[], ptxas: None, others: &[] };
        const BLACKWELL: Image = Image { arch: "sm_100a", ..HOPPER };
        const ULTRA: Image = Image { arch: "sm_103a", ..HOPPER };
        static IMAGES: [Image; 5] = [
            HOPPER,
            BLACKWELL,
            Image { others: &[BLACKWELL], ..HOPPER },
            Image { others: &[HOPPER, ULTRA], ..BLACKWELL },
            Image { others: &[BLACKWELL, ULTRA], ..HOPPER },
        ];
        for image in &IMAGES {
            for arch in ["sm_90a", "sm_100a", "sm_103a"] {
                let found = part(image, arch, || "device 0 (GPU)".into());
                let have = image.archs();
                match found {
                    Ok(part) => assert_eq!(part.arch, arch, "{have}"),
                    Err(line) => {
                        assert!(!have.contains(arch));
                        assert_eq!(
                            line.to_string(),
                            format!("image x has code for {have}; device 0 (GPU) runs {arch}")
                        );
                    }
                }
            }
        }
    }
}
