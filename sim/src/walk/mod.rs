//! The tree of schedules of one cluster, and the walk that leaves out what only repeats.

pub(crate) mod clock;
pub(crate) mod guide;
pub(crate) mod order;
pub(crate) mod tree;
