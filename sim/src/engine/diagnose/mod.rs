//! From a fault, or from a cluster that can't go on, to a report.

mod hints;
mod lacks;
pub(crate) mod page;
mod people;
mod steps;
pub(crate) mod view;
mod waits;
