//! The GPUs of the machine: loading the driver, and what it says about each device.

use crate::driver::{self, CuDevice, CuStream, is, value};
use crate::error::Error;
use serde::Serialize;
use std::ffi::CStr;

/// The oldest driver that assembles the PTX version of the images.
const OLDEST_DRIVER: i32 = 12080;

/// Properties of a GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceInfo {
    /// CUDA device ordinal.
    pub index: usize,
    /// Name that the driver reports.
    pub name: String,
    /// Compute capability.
    pub compute: (i32, i32),
    /// Streaming multiprocessors.
    pub sms: u32,
    /// Device memory in bytes.
    pub memory_bytes: u64,
    /// Most shared memory that one CTA can opt in to, in bytes.
    pub smem_bytes: u32,
    /// L2 cache in bytes.
    pub l2_bytes: u64,
    /// Highest clock of the SMs in kHz.
    pub clock_khz: u32,
    /// Memory clock in kHz. Each pin transfers two bits per cycle.
    pub memory_clock_khz: u32,
    /// Width of the memory bus in bits.
    pub memory_bits: u32,
    /// PCI bus ID in NVML's format.
    pub pci: String,
    /// CUDA version that the driver supports.
    pub driver: (i32, i32),
}

impl DeviceInfo {
    /// Whether kernels for sm_90a run on this GPU.
    pub fn is_hopper(&self) -> bool {
        self.compute == (9, 0)
    }

    /// The PTX target of the images that this GPU runs: `sm_90a`, `sm_100a` or `sm_103a`. `None` for a GPU that
    /// [`Device::cuda`](crate::Device::cuda) refuses.
    pub fn arch(&self) -> Option<&'static str> {
        crate::arch::of_compute(self.compute)
    }

    /// Peak rate of dense bf16 products with f32 accumulators at the highest clock, in TFLOP/s. A Hopper
    /// SM does 2048 multiply-adds per clock. It is no figure of any other GPU.
    pub fn peak_tflops(&self) -> f64 {
        f64::from(self.sms) * 4096.0 * f64::from(self.clock_khz) * 1e-9
    }

    /// Peak memory bandwidth in GB/s.
    pub fn peak_gbs(&self) -> f64 {
        2.0 * f64::from(self.memory_clock_khz) * 1e-6 * f64::from(self.memory_bits) / 8.0
    }
}

/// Proof that libcuda is loaded and initialised, with the CUDA version that it supports.
#[derive(Clone, Copy)]
pub(crate) struct Driver {
    pub version: (i32, i32),
}

/// Loads and initialises the driver once per process.
pub(crate) fn driver() -> Result<Driver, Error> {
    // SAFETY: `cuInit` has no preconditions.
    unsafe { driver::cuInit(0) }
        .map_err(|e| if is(&e, value::ERROR_NO_DEVICE) { Error::NoGpu } else { e })?;
    let mut version = 0;
    // SAFETY: `version` is a valid place for the result.
    unsafe { driver::cuDriverGetVersion(&raw mut version) }?;
    let (major, minor) = (version / 1000, version % 1000 / 10);
    if version < OLDEST_DRIVER {
        return Err(Error::DriverTooOld { major, minor });
    }
    Ok(Driver { version: (major, minor) })
}

/// Lists every GPU of the machine, of any architecture.
///
/// # Errors
/// [`Error::NoDriver`] or [`Error::DriverTooOld`]; [`Error::NoGpu`] if the driver finds no GPU;
/// [`Error::Driver`] if a driver call fails.
pub fn cuda_devices() -> Result<Vec<DeviceInfo>, Error> {
    let driver = driver()?;
    let mut count = 0;
    // SAFETY: `count` is a valid place for the result.
    unsafe { driver::cuDeviceGetCount(&raw mut count) }?;
    if count == 0 {
        return Err(Error::NoGpu);
    }
    (0..count).map(|i| info(driver, i)).collect()
}

/// What the driver says about a device.
pub(crate) fn info(driver: Driver, index: i32) -> Result<DeviceInfo, Error> {
    let device = device(index)?;
    let attr = |which| {
        let mut value = 0;
        // SAFETY: `device` came from `cuDeviceGet`; `value` is a valid place for the result.
        unsafe { driver::cuDeviceGetAttribute(&raw mut value, which, device) }?;
        Ok::<i32, Error>(value)
    };
    let mut name = [0; 256];
    // SAFETY: `name` has room for as many bytes as the call is told, with the zero byte at the end.
    unsafe { driver::cuDeviceGetName(name.as_mut_ptr(), name.len() as i32, device) }?;
    // SAFETY: the driver has written a text that ends in a zero byte.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();
    let mut memory_bytes = 0;
    // SAFETY: `device` came from `cuDeviceGet`; `memory_bytes` is a valid place for the result.
    unsafe { driver::cuDeviceTotalMem(&raw mut memory_bytes, device) }?;
    Ok(DeviceInfo {
        index: index as usize,
        name,
        compute: (attr(value::DEVICE_MAJOR)?, attr(value::DEVICE_MINOR)?),
        sms: attr(value::DEVICE_SMS)? as u32,
        memory_bytes: memory_bytes as u64,
        smem_bytes: attr(value::DEVICE_SMEM_OPTIN)? as u32,
        l2_bytes: attr(value::DEVICE_L2_BYTES)? as u64,
        clock_khz: attr(value::DEVICE_CLOCK_RATE)? as u32,
        memory_clock_khz: attr(value::DEVICE_MEMORY_CLOCK_RATE)? as u32,
        memory_bits: attr(value::DEVICE_MEMORY_BUS_WIDTH)? as u32,
        pci: format!(
            "{:08x}:{:02x}:{:02x}.0",
            attr(value::DEVICE_PCI_DOMAIN)?,
            attr(value::DEVICE_PCI_BUS)?,
            attr(value::DEVICE_PCI_DEVICE)?
        ),
        driver: driver.version,
    })
}

/// The device of an ordinal.
pub(crate) fn device(index: i32) -> Result<CuDevice, Error> {
    let mut device = 0;
    // SAFETY: `device` is a valid place for the result.
    unsafe { driver::cuDeviceGet(&raw mut device, index) }?;
    Ok(device)
}

/// Makes a stream of the bound context that does not synchronise with the default stream of CUDA.
pub(crate) fn new_stream() -> Result<CuStream, Error> {
    let mut stream = CuStream::NULL;
    // SAFETY: the caller has bound the context; `stream` is a valid place for the result.
    unsafe { driver::cuStreamCreate(&raw mut stream, value::STREAM_NON_BLOCKING) }?;
    Ok(stream)
}
