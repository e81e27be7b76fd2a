//! The engine of a cluster: it owns the parts, and tells those who watch what happens.

pub(crate) mod cluster;
mod conflict;
mod diagnose;
pub(crate) mod machine;
pub(crate) mod protocol;
pub(crate) mod steps;
