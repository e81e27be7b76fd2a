//! A cluster's place in its grid, its CTAs, and its threads.

pub(crate) mod ctas;
pub(crate) mod requests;
pub(crate) mod shape;
pub(crate) mod thread;
pub(crate) mod tokens;
