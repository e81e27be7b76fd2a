//! The bench crate's errors.

/// An error of a measurement. Every message is one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of the host crate.
    #[error(transparent)]
    Host(#[from] host::Error),
    /// cuBLASLt could not be loaded.
    #[error(
        "cuBLASLt is not available: {reason}; set WARPIPE_CUBLASLT to libcublasLt.so.13 or put its folder on LD_LIBRARY_PATH"
    )]
    NoCublasLt {
        /// The dynamic loader's message.
        reason: String,
    },
    /// A call of cuBLASLt failed.
    #[error("{call} failed: {status}")]
    CublasLt {
        /// The function called.
        call: &'static str,
        /// The status that it returned.
        status: String,
    },
    /// A setting is too small to measure anything.
    #[error("benchmark: {what} = {value}; the least value is {least}")]
    Setting {
        /// The setting.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The least value.
        least: u64,
    },
}
