//! What a cluster did and when: the material of a picture.
//!
//! A [`Tracing`] in [`crate::Config::trace`] asks for it. The events carry *model time*, in cycles of
//! an idealised SM: what follows from the dependencies of the run and from the handful of costs in
//! [`mod@cycles`]. It is not a prediction; it has the proportions that make an overlap visible. Each
//! thread has a clock. An instruction moves its own; a wait moves the waiter's to the moment at which
//! what it waits for was complete; copies and wgmmas take their turn on engines that do one thing at
//! a time. So the times hold for any schedule, and asking for them changes none. They are plainest
//! under [`crate::Schedule::timed`], which runs whoever is earliest: then engines serve in the order
//! of time. Where a thread polls, nothing says how often it would look: its time is a lower bound.

pub mod cycles;
pub(crate) mod data;
pub(crate) mod timing;
mod unit;

pub use data::{BarrierName, Cause, Event, ThreadTrace, Trace, Tracing, What};
