//! Who decides what happens next: the plan of a run, and the draws that follow it.

pub(crate) mod looks;
pub(crate) mod plan;
pub(crate) mod queue;
pub(crate) mod rng;
pub(crate) mod turns;
