//! Small kernels, one idea each; each is a chapter of docs/examples.md.
//!
//! They run on the SM model and on a GPU in tests/integration/examples.rs.

pub mod cluster_exchange;
pub mod ordered_loads;
pub mod ping_pong;
pub mod rms_norm;
pub mod stream_copy;
pub mod two_rings;
