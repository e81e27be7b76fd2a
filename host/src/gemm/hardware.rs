//! What the predictions have to know of a GPU.

use super::calibration::Calibration;
use crate::Device;

/// The GPU that a product runs on, for the picker's predictions (CUTLASS `KernelHardwareInfo`).
#[derive(Clone, Copy, Debug)]
pub struct HardwareInfo {
    /// Number of streaming multiprocessors.
    pub sms: u32,
    /// Its times and rates.
    pub calibration: &'static Calibration,
}

impl HardwareInfo {
    /// A GPU with the times and rates of an H200.
    #[must_use]
    pub const fn h200(sms: u32) -> Self {
        Self { sms, calibration: &Calibration::H200 }
    }

    /// A GPU with the times and rates of an H100.
    #[must_use]
    pub const fn h100(sms: u32) -> Self {
        Self { sms, calibration: &Calibration::H100 }
    }

    /// That of a device: the calibration whose memory has the nearest rate. The SM model has that of an H200.
    #[must_use]
    pub fn of(device: &Device) -> Self {
        let calibration = device.info().map_or(&Calibration::H200, |info| nearest(info.peak_gbs()));
        Self { sms: device.sms(), calibration }
    }
}

/// The calibration of the GPU whose memory is nearest to this rate in GB/s.
fn nearest(gbs: f64) -> &'static Calibration {
    let far = |c: &Calibration| (gbs / c.memory_gbs).ln().abs();
    let all = Calibration::ALL.into_iter();
    all.min_by(|a, b| far(a).total_cmp(&far(b))).unwrap_or(&Calibration::H200)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_has_the_calibration_with_the_nearest_memory() {
        // H100 PCIe, H100 SXM, H100 NVL, H20 and GH200, H200. A driver that does not say has 0.
        for (gbs, gpu) in [
            (0.0, "H100"),
            (2039.0, "H100"),
            (3352.3, "H100"),
            (3938.0, "H100"),
            (4022.0, "H200"),
            (4814.0, "H200"),
        ] {
            assert_eq!(nearest(gbs).gpu, gpu, "{gbs}");
        }
        let sim = Device::sim(crate::SimConfig { sms: 8, ..crate::SimConfig::default() });
        let info = HardwareInfo::of(&sim);
        assert_eq!((info.sms, info.calibration.gpu), (8, "H200"));
    }
}
