//! The grids of a run: which clusters are resident, which grid may start, and which has ended.

pub(crate) mod room;
pub(crate) mod stream;
