//! What the CTAs of a cluster have asked of launch control.

use crate::types::loc::Loc;

/// The requests of a cluster.
#[derive(Default)]
pub(crate) struct Requests {
    /// How many they are.
    pub made: u64,
    /// The CTAs that have seen a request fail, and where.
    pub failed: Vec<(usize, Loc)>,
}
