//! What each kind of instruction does.
//!
//! An instruction changes the parts of the machine that it concerns, tells those who watch, and wakes
//! the threads whose wait is over. The rules are the parts' own.

pub(crate) mod access;
pub(crate) mod bulk;
pub(crate) mod cluster_barrier;
pub(crate) mod cp_async;
pub(crate) mod exit;
pub(crate) mod fence;
pub(crate) mod given;
pub(crate) mod grid;
pub(crate) mod groups;
pub(crate) mod landing;
pub(crate) mod launch_control;
pub(crate) mod matrix;
pub(crate) mod mbarrier;
pub(crate) mod named;
pub(crate) mod pair;
pub(crate) mod shift;
pub(crate) mod tensor;
pub(crate) mod tensor_copy;
pub(crate) mod tensormap;
pub(crate) mod umma;
pub(crate) mod warp;
pub(crate) mod wgmma;
