//! What this machine has, as a list of findings.

use crate::python::Error;
use pyo3::prelude::*;
use serde_json::json;
use warpipe::host;

/// The findings as JSON: what, whether it is good, and the details.
#[pyfunction]
pub fn doctor() -> PyResult<String> {
    let image = &warpipe::GEMM_IMAGE;
    let mut findings = vec![json!({
        "what": "image",
        "good": true,
        "detail": format!(
            "{} for {}, {} kernels, {} KiB, {}",
            image.name,
            image.archs(),
            image.kernels.len(),
            image.code_bytes().div_ceil(1024),
            image.ptxas.map_or_else(
                || "not checked by ptxas when it was built".to_owned(),
                |version| format!("checked by ptxas {version}")
            ),
        ),
    })];
    match host::cuda_devices() {
        Ok(devices) => findings.extend(devices.iter().map(|gpu| {
            let (major, minor) = gpu.compute;
            json!({
                "what": "GPU",
                "good": gpu.is_hopper(),
                "detail": format!(
                    "cuda:{} {}: compute capability {major}.{minor}, {} SMs, {} MiB, driver of CUDA {}.{}{}",
                    gpu.index,
                    gpu.name,
                    gpu.sms,
                    gpu.memory_bytes >> 20,
                    gpu.driver.0,
                    gpu.driver.1,
                    // The functions of this package launch kernels for a Hopper alone.
                    if gpu.is_hopper() { "" } else { "; the kernels of this package need 9.0" }
                ),
            })
        })),
        Err(e) => findings.push(json!({
            "what": "driver",
            "good": false,
            "detail": format!("{e}; arrays of the host are computed on the SM model"),
        })),
    }
    serde_json::to_string(&findings).map_err(|e| Error::new_err(e.to_string()))
}
