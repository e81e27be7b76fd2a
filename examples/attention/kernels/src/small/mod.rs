//! A small attention, O = softmax(scale · Q·Kᵀ) · V, in steps. Each step is a kernel that runs.
//!
//! ```text
//! one_block   64 queries, 64 keys                       the two products, and the softmax between them
//! blocks      any number of keys, causal                the softmax block by block
//! overlap     the same                                  a product while the softmax is computed
//! turns       two warp groups of 64 queries each        one group's products beside the other's softmax
//! sigmoid     the same, causal or not                   sigmoid in place of softmax
//! ```

pub mod blocks;
pub mod one_block;
pub mod overlap;
pub mod sigmoid;
mod softmax;
pub mod turns;
