//! Barriers between the warps of a CTA and between the CTAs of a cluster.
//!
//! | type | what it does |
//! |---|---|
//! | [`NamedBarrier`] | synchronises roles |
//! | [`OrderedSequence`], [`NamedSequence`] | make warp groups take turns |
//! | [`LoadOrderBarrier`] | orders the loads of two warps |
//! | [`ClusterArrived`] | the cluster barrier, split into arrive and wait |
//! | [`Mailbox`] | sends messages to the next CTA of a cluster |
//!
//! A ring has its own barriers.

mod cluster;
mod mailbox;
mod named;
mod named_sequence;
mod order;
mod sequence;

pub use cluster::*;
pub use mailbox::*;
pub use named::*;
pub use named_sequence::*;
pub use order::*;
pub use sequence::*;
