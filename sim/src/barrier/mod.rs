//! The barriers: mbarriers in shared memory, named barriers of a CTA, and the cluster's barrier.
//!
//! Each struct keeps its counts, its waiters, and its rules. It returns the threads that must be woken,
//! and the engine wakes them.

pub(crate) mod cluster;
pub(crate) mod history;
pub(crate) mod labels;
pub(crate) mod mbarrier;
pub(crate) mod mbarriers;
pub(crate) mod named;
pub(crate) mod uses;
