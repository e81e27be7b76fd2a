//! The instructions, as `isa` calls them on the host: same module paths, names and signatures.
//!
//! They are safe: what the machine leaves undefined, the model checks, and a broken rule ends the
//! run with a report. Each works only inside [`crate::launch`], and panics elsewhere. One trust is
//! left: a tensor map's pointer that is not a device address is followed on the host, so it must be
//! that of a parameter which lives as long as the launch.

pub mod barrier;
pub mod cluster;
pub mod cp_async;
pub mod cp_async_bulk;
pub mod cvt;
pub mod debug;
pub mod fence;
pub mod global;
pub mod griddepcontrol;
pub mod math;
pub mod matrix;
pub mod mbarrier;
pub mod misc;
pub mod setmaxnreg;
pub mod shared;
pub mod sreg;
pub mod thread;
pub mod warp;
pub mod wgmma;

pub use crate::types::word::{Inert, Word};
