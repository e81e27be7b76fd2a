//! The GPU of the tests that need one.

use host::Device;
use std::io::Write;

/// Device 0, or `None` with a printed line. With `WARPIPE_REQUIRE_GPU=1` its absence fails the test.
pub fn gpu(test: &str) -> Option<Device> {
    match Device::cuda(0) {
        Ok(device) => Some(device),
        Err(why) => {
            let required = std::env::var_os("WARPIPE_REQUIRE_GPU").is_some_and(|v| v == "1");
            assert!(!required, "WARPIPE_REQUIRE_GPU=1: {why}");
            say(&format!("{test}: skipped, {why}"));
            None
        }
    }
}

/// A line that the test harness does not swallow.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
