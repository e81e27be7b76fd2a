//! The protocol of a cluster: the synchronising instructions of its threads, in the order of the run,
//! and the state of barriers, copies and groups between them. [`crate::certify`] compares them among
//! runs with different numbers of steps.

pub(crate) mod period;
pub(crate) mod record;
pub(crate) mod watcher;
