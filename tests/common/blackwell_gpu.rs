//! A Blackwell GPU, if there is one, and what runs on it in a process of its own.
//!
//! Shared, by path, by the tests named `gpu_blackwell`, of warpipe and of warpipe-conformance.

use host::DeviceInfo;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A process that takes longer hangs.
const TIME: Duration = Duration::from_mins(3);

/// The first Blackwell GPU, or why there is none.
fn blackwell() -> Result<DeviceInfo, String> {
    let devices = host::cuda_devices().map_err(|e| e.to_string())?;
    let runs = |gpu: &DeviceInfo| matches!(gpu.arch(), Some("sm_100a" | "sm_103a"));
    let have: Vec<_> = devices
        .iter()
        .map(|gpu| format!("{} has {}.{}", gpu.name, gpu.compute.0, gpu.compute.1))
        .collect();
    let have = have.join(", ");
    let found = devices.into_iter().find(runs);
    found.ok_or_else(|| format!("no GPU of compute capability 10.0 or 10.3: {have}"))
}

/// The first Blackwell GPU. Without one, `test` prints a line; with `WARPIPE_REQUIRE_GPU=blackwell` it fails.
pub fn wanted(test: &str) -> Option<DeviceInfo> {
    match blackwell() {
        Ok(gpu) => Some(gpu),
        Err(why) => {
            let asked = std::env::var_os("WARPIPE_REQUIRE_GPU").is_some_and(|v| v == "blackwell");
            assert!(!asked, "WARPIPE_REQUIRE_GPU=blackwell: {why}");
            say(&format!("{test}: skipped, {why}"));
            None
        }
    }
}

/// A line that the test harness does not swallow.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Runs the test `test` of this program in a process of its own, in which the variable `part` says which part of it to run.
pub fn alone(test: &str, part: &str, name: &str) -> Result<(), String> {
    let mut child = Command::new(std::env::current_exe().map_err(|e| e.to_string())?)
        .args(["--exact", test, "--nocapture"])
        .env(part, name)
        .stdout(Stdio::null())
        .spawn()
        .map_err(|e| format!("{name}: {e}"))?;
    let start = Instant::now();
    loop {
        match child.try_wait().map_err(|e| format!("{name}: {e}"))? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(format!("{name}: {status}")),
            None if start.elapsed() > TIME => {
                // It is this test's own child.
                let ended = child.kill().and_then(|()| child.wait());
                return Err(format!("{name}: no end after {} s ({ended:?})", TIME.as_secs()));
            }
            None => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}
