//! Description of the GPU of a measurement: name, driver, clocks and limits.
//!
//! NVML, which is loaded at run time, reports the driver version, the current clocks and the power limit.
//! A value that NVML does not report is unknown.

use crate::one_line;
use host::DeviceInfo;
use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A GPU at the time of a measurement. Unknown values are `None`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Name of the GPU.
    pub gpu: String,
    /// Number of SMs.
    pub sms: u32,
    /// L2 cache in bytes.
    pub l2_bytes: u64,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// CUDA version that the driver supports.
    pub cuda: String,
    /// Peak rate of dense bf16 products at the highest clock, in TFLOP/s.
    pub peak_tflops: f64,
    /// Peak memory bandwidth in GB/s.
    pub peak_gbs: f64,
    /// Measured rate of a copy in device memory, bytes read plus bytes written, in GB/s.
    pub copy_gbs: Option<f64>,
    /// Highest clock of the SMs in MHz.
    pub max_sm_mhz: u32,
    /// Driver version.
    pub driver: Option<String>,
    /// Current clock of the SMs in MHz.
    pub sm_mhz: Option<u32>,
    /// Current clock of the memory in MHz.
    pub memory_mhz: Option<u32>,
    /// Power limit in watts.
    pub power_limit_w: Option<f64>,
    /// Current power in watts.
    pub power_w: Option<f64>,
    /// Temperature in degrees Celsius.
    pub celsius: Option<u32>,
    /// Why NVML reported nothing.
    pub nvml_absent: Option<String>,
}

impl Machine {
    /// Describes the GPU of `info` at this moment.
    pub fn of(info: &DeviceInfo) -> Self {
        let mut machine = Self {
            gpu: info.name.clone(),
            sms: info.sms,
            l2_bytes: info.l2_bytes,
            memory_bytes: info.memory_bytes,
            cuda: format!("{}.{}", info.driver.0, info.driver.1),
            peak_tflops: info.peak_tflops(),
            peak_gbs: info.peak_gbs(),
            copy_gbs: None,
            max_sm_mhz: info.clock_khz / 1000,
            driver: None,
            sm_mhz: None,
            memory_mhz: None,
            power_limit_w: None,
            power_w: None,
            celsius: None,
            nvml_absent: None,
        };
        if let Err(why) = machine.ask(&info.pci) {
            machine.nvml_absent = Some(one_line(&why.to_string()));
        }
        machine
    }

    fn ask(&mut self, pci: &str) -> Result<(), nvml_wrapper::error::NvmlError> {
        let nvml = Nvml::init()?;
        let device = nvml.device_by_pci_bus_id(pci)?;
        let watts = |milliwatts: u32| f64::from(milliwatts) * 1e-3;
        self.driver = nvml.sys_driver_version().ok();
        self.sm_mhz = device.clock_info(Clock::SM).ok();
        self.memory_mhz = device.clock_info(Clock::Memory).ok();
        self.power_limit_w = device.enforced_power_limit().ok().map(watts);
        self.power_w = device.power_usage().ok().map(watts);
        self.celsius = device.temperature(TemperatureSensor::Gpu).ok();
        Ok(())
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = |value: Option<String>| value.unwrap_or_else(|| "unknown".to_owned());
        let (gib, mib) = (self.memory_bytes >> 30, self.l2_bytes >> 20);
        writeln!(f, "{}, {} SMs, {gib} GiB, {mib} MiB of L2 cache", self.gpu, self.sms)?;
        writeln!(
            f,
            "driver {} (CUDA {}), power limit {}, {} at {}",
            known(self.driver.clone()),
            self.cuda,
            known(self.power_limit_w.map(|w| format!("{w:.0} W"))),
            known(self.power_w.map(|w| format!("{w:.0} W"))),
            known(self.celsius.map(|c| format!("{c} C")))
        )?;
        write!(
            f,
            "clocks: SMs {} (at most {} MHz), memory {}",
            known(self.sm_mhz.map(|c| format!("{c} MHz"))),
            self.max_sm_mhz,
            known(self.memory_mhz.map(|c| format!("{c} MHz")))
        )?;
        self.nvml_absent.as_ref().map_or(Ok(()), |why| write!(f, "\nNVML: {why}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_nvml_the_rest_is_told_and_the_peaks_are_the_data_sheet_s() {
        let info = DeviceInfo {
            index: 0,
            name: "NVIDIA H200".to_owned(),
            compute: (9, 0),
            sms: 132,
            memory_bytes: 141 << 30,
            smem_bytes: 232_448,
            l2_bytes: 60 << 20,
            clock_khz: 1_830_000,
            memory_clock_khz: 3_201_000,
            memory_bits: 6144,
            // No machine has this bus: NVML, if it is there, does not know the device.
            pci: "ffffffff:ff:1f.0".to_owned(),
            driver: (13, 0),
        };
        let machine = Machine::of(&info);
        // The data sheet of the H100 and H200: 989 TFLOP/s dense, and 4.8 TB/s of the H200.
        assert!((machine.peak_tflops - 989.4).abs() < 1.0, "{}", machine.peak_tflops);
        assert!((machine.peak_gbs - 4916.7).abs() < 1.0, "{}", machine.peak_gbs);
        assert!(machine.nvml_absent.is_some() && machine.power_limit_w.is_none());
        let text = machine.to_string();
        assert!(text.starts_with("NVIDIA H200, 132 SMs, 141 GiB, 60 MiB of L2 cache\n"), "{text}");
        assert!(text.contains("(CUDA 13.0), power limit unknown"), "{text}");
    }
}
