//! What makes a cluster run: who goes next, the coroutines of its threads, and the clusters of a
//! launch.

mod budget;
pub(crate) mod current;
mod guided;
mod idle;
pub(crate) mod launch;
mod next;
mod panics;
pub(crate) mod run;
mod stack;
mod timed;
mod tracing;
mod workers;
