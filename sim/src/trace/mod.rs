//! What a cluster did and when: the material of a picture.
//!
//! A [`Tracing`] in [`crate::Config::trace`] asks for it. The events carry *model time*, in cycles of an
//! idealised SM. It follows from the dependencies of the run and from the costs in [`mod@cycles`]. It is
//! no prediction, but its proportions make an overlap visible.
//!
//! Each thread has a clock. An instruction moves the clock of its thread. A wait moves it to the moment
//! at which what it waited for was complete. Copies and wgmmas take turns on units that do one thing at a
//! time. So the times hold for any schedule, and asking for them changes none. Under
//! [`crate::Schedule::timed`], which runs whoever is earliest, the units serve in the order of time. The
//! time of a thread that polls is a lower bound, for nothing says how often it would look.

pub mod cycles;
pub(crate) mod data;
pub(crate) mod timing;
mod unit;

pub use data::{BarrierName, Cause, Event, ThreadTrace, Trace, Tracing, What};
