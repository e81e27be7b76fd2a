//! When a copy lands, in a cluster that keeps time.

/// When a copy lands, and its number.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Landing {
    pub at: u64,
    pub copy: u32,
}
