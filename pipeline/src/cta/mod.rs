//! A CTA: its cluster, its roles, and its shared memory.

mod cluster;
mod roles;
mod smem;

pub use cluster::*;
pub use roles::*;
pub use smem::*;
