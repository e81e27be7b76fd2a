//! Why a product can't be tuned, and why a tune cache can't be used.

use std::io;
use std::path::PathBuf;

/// An error of [`Gemm::tune`](super::super::Gemm::tune) or of a [`TuneCache`](super::TuneCache). Every message is one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TuneError {
    /// A product with nothing to time.
    #[error(
        "{m}x{n}x{k} is an empty product, which has no time; M, N and K of at least 1 are right"
    )]
    Empty {
        /// Rows of D.
        m: u64,
        /// Columns of D.
        n: u64,
        /// Columns of A and B.
        k: u64,
    },
    /// An entry that can't be planned on this device with this program.
    #[error("the tune cache has {instance} for {shape}, but {reason}; tune the product again")]
    Stale {
        /// The kernel and its schedule.
        instance: String,
        /// M, N and K.
        shape: String,
        /// Why it can't be planned.
        reason: String,
    },
    /// The file can't be read.
    #[error("{}: {source}", file.display())]
    Open {
        /// The file.
        file: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is something else, or a cache of another format.
    #[error("{}: not a tune cache: {reason}; the file is unchanged", file.display())]
    NotACache {
        /// The file.
        file: PathBuf,
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// The file can't be written.
    #[error("{}: cannot write the tune cache: {source}", file.display())]
    Save {
        /// The file.
        file: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}
