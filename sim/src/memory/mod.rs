//! The two memories: global, shared by all CTAs, and each CTA's shared memory with its shadow.

pub(crate) mod global;
pub(crate) mod handle;
pub(crate) mod regions;
pub(crate) mod shared;
pub(crate) mod written;
