//! Barriers that carry no data of their own: who may go on, and when.

mod cluster;
mod mailbox;
mod named;
mod order;
mod sequence;

pub use cluster::*;
pub use mailbox::*;
pub use named::*;
pub use order::*;
pub use sequence::*;
