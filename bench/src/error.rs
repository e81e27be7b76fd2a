//! What a measurement can fail at.

/// An error of a measurement, in one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The host side refused something, or failed.
    #[error(transparent)]
    Host(#[from] host::Error),
    /// cuBLASLt is not there.
    #[error(
        "cuBLASLt is not available: {reason}; set WARPIPE_CUBLASLT to libcublasLt.so.13 or put its folder on LD_LIBRARY_PATH"
    )]
    NoCublasLt {
        /// What the loader said.
        reason: String,
    },
    /// A call of cuBLASLt failed.
    #[error("{call} failed: {status}")]
    CublasLt {
        /// The function called.
        call: &'static str,
        /// Its status.
        status: String,
    },
    /// Nothing can be measured with these settings.
    #[error("benchmark: {what} = {value}; at least {least} is needed")]
    Setting {
        /// The setting.
        what: &'static str,
        /// Its value.
        value: u64,
        /// Its least value.
        least: u64,
    },
}
