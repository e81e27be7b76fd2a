//! Asynchronous copies: TMA and bulk copies, `cp.async`, and the groups that wait for them.

pub(crate) mod boxes;
pub(crate) mod check;
pub(crate) mod copies;
pub(crate) mod cp_async;
pub(crate) mod flight;
pub(crate) mod groups;
pub(crate) mod reduce;
