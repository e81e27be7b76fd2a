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

impl Requests {
    /// The protocol state: the CTAs that have seen a request fail. How many were made before decides nothing.
    pub fn protocol(&self, f: &mut impl FnMut(u64)) {
        let mut failed: Vec<usize> = self.failed.iter().map(|f| f.0).collect();
        failed.sort_unstable();
        f(failed.into_iter().fold(0, |all, cta| all | 1 << cta));
    }
}
