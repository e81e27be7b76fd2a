//! The GPU of the tests that need one.
//!
//! Shared, by path, by the programs of several crates.
#![allow(dead_code)]

use host::Device;
use std::io::Write;
use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Device 0, which must be a Hopper GPU, or `None` with a printed line. With `WARPIPE_REQUIRE_GPU=1` its absence fails the
/// test.
pub fn gpu(test: &str) -> Option<Gpu> {
    let alone = alone();
    match hopper() {
        Ok(device) => Some(Gpu { device, _alone: alone }),
        Err(why) => {
            let required = std::env::var_os("WARPIPE_REQUIRE_GPU").is_some_and(|v| v == "1");
            assert!(!required, "WARPIPE_REQUIRE_GPU=1: {why}");
            say(&format!("{test}: skipped, {why}"));
            None
        }
    }
}

/// Device 0, if images of sm_90a run there.
fn hopper() -> Result<Device, String> {
    let device = Device::cuda(0).map_err(|why| why.to_string())?;
    match device.info().and_then(host::DeviceInfo::arch) {
        Some("sm_90a") => Ok(device),
        _ => Err(format!("{} runs no image of sm_90a", device.describe())),
    }
}

/// The right to use the GPU, for one test of the program at a time: while a stream is being captured,
/// the driver refuses to wait for the device, whoever asks; what is timed wants the GPU for itself; and a
/// kernel that traps should fail its own test first.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    // A test that failed has told so itself.
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The GPU, for one test at a time.
pub struct Gpu {
    device: Device,
    _alone: MutexGuard<'static, ()>,
}

impl Deref for Gpu {
    type Target = Device;
    fn deref(&self) -> &Device {
        &self.device
    }
}

/// A line that the test harness does not swallow.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
