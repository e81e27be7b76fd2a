//! The engine of a cluster: it owns the parts, and tells those who watch what happens.

mod conflict;
pub(crate) mod core;
mod diagnose;
pub(crate) mod machine;
pub(crate) mod steps;
