//! A run of the family of runs that a certificate is about.

/// A run of the family that [`super::certify`] asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trial {
    /// The number of steps: what the statement is about.
    pub steps: u32,
    /// Which data the kernel gets: 0 or 1. Runs with both must do the same.
    pub data: u64,
}
