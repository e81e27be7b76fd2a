//! A CTA: its roles, its shared memory and its place in a cluster.
//!
//! [`Cta`] is the token that a kernel starts with. [`SmemPlan`] lists what the CTA keeps in shared memory,
//! [`roles!`](crate::roles) declares what its warp groups do, and [`Cluster`] is the shape of its cluster.

mod cluster;
mod group;
mod roles;
mod smem;
mod text;

pub use cluster::*;
pub use group::{CtaGroup, Leader, OneSm, TwoSm};
pub(crate) use group::{PAIR, is_pair};
pub use roles::*;
pub use smem::*;
