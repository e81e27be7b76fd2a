//! From a fault, or from a cluster that can't go on, to a report.

pub(crate) mod page;
mod steps;
pub(crate) mod view;
mod waits;
