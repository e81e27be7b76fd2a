//! Attention of few queries with many keys (decode): the keys of a head are split among CTAs.
//!
//! ```text
//! work    which keys of which head     a list for each CTA, from the host
//! rows    heads that share keys        the queries of all of them are rows of one tile
//! keys    a cache with lengths         whole, or in pages that a block table names
//! parts   partial results              SplitTiles: the CTA that comes last combines them
//! ```
//!
//! [`table`] has the compiled kernels of this crate.

pub mod args;
mod combine;
pub mod kernel;
pub mod table;

pub use args::DecodeArgs;
#[cfg(not(target_arch = "nvptx64"))]
pub use table::{DECODE_INSTANCES, DecodeInstance};
