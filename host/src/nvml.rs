//! The version of the NVIDIA driver, which only its management library (NVML) tells.

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::sync::OnceLock;

/// `NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE`.
const BYTES: usize = 80;

/// `nvmlInit_v2` and `nvmlShutdown`.
type Plain = unsafe extern "C" fn() -> c_int;
/// `nvmlSystemGetDriverVersion`.
type Version = unsafe extern "C" fn(*mut c_char, c_uint) -> c_int;

/// Version of the installed NVIDIA driver, for example `580.95.05`; `None` if NVML does not tell.
///
/// NVML is loaded at run time, at the first call of a process, and only then. That takes milliseconds.
pub fn driver_version() -> Option<&'static str> {
    static VERSION: OnceLock<Option<String>> = OnceLock::new();
    VERSION.get_or_init(ask).as_deref()
}

fn ask() -> Option<String> {
    let name = if cfg!(windows) { "nvml.dll" } else { "libnvidia-ml.so.1" };
    // SAFETY: loading NVML runs its initialisers, which have no preconditions.
    let library = unsafe { libloading::Library::new(name) }.ok()?;
    // SAFETY: these are the types of the functions in `nvml.h`; the library outlives their uses below.
    let (init, version, shutdown) = unsafe {
        (
            library.get::<Plain>(b"nvmlInit_v2").ok()?,
            library.get::<Version>(b"nvmlSystemGetDriverVersion").ok()?,
            library.get::<Plain>(b"nvmlShutdown").ok()?,
        )
    };
    // SAFETY: `nvmlInit_v2` has no preconditions.
    if unsafe { init() } != 0 {
        return None;
    }
    let mut text: [c_char; BYTES] = [0; BYTES];
    // SAFETY: NVML is initialised, and `text` has room for as many bytes as the call is told.
    let status = unsafe { version(text.as_mut_ptr(), BYTES as c_uint) };
    // SAFETY: it pairs with the call of `init`.
    unsafe { shutdown() };
    text[BYTES - 1] = 0;
    // SAFETY: the array ends in a zero byte.
    let text = unsafe { CStr::from_ptr(text.as_ptr()) }.to_str().ok()?;
    (status == 0 && !text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_version_is_numbers_or_none() {
        let version = super::driver_version();
        assert!(version.is_none_or(|v| v.starts_with(|c: char| c.is_ascii_digit())), "{version:?}");
        assert_eq!(version, super::driver_version());
    }
}
