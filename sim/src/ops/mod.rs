//! The instructions, as `isa` calls them on the host: same module paths, names and signatures.
//!
//! They are safe: the model checks what the machine leaves undefined, and a broken rule ends the run with
//! a report. They work only inside [`crate::launch`], and panic elsewhere. One thing is not checked. A
//! pointer to a tensor map that is no device address is read on the host, so it must be that of a
//! parameter that lives as long as the launch.

pub mod barrier;
pub mod cluster;
pub mod clusterlaunchcontrol;
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
pub mod tcgen05;
pub mod tensormap;
pub mod thread;
pub mod warp;
pub mod wgmma;

pub use crate::types::word::{Inert, Word};
