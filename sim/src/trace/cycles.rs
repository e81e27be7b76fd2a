//! What things take, in cycles.

/// An instruction, with the arithmetic around it, of which the model sees special functions only.
pub const INSTRUCTION: u64 = 4;
/// From a copy's start to its first byte; and from when a store has read its source until it is
/// written. About what the L2 cache takes on an H100.
pub const LATENCY: u64 = 600;
/// Bytes that come into an SM in one cycle, and those that leave it.
pub const BYTES: u64 = 64;
/// Multiplications that the tensor cores of an SM do in one cycle, of 16-bit operands.
pub const MULTIPLICATIONS: u64 = 2048;
/// A special function of a warp: reciprocal, root, exponential, logarithm, tanh. An SM computes 16 of them in one cycle, a
/// quarter of the SM those of its warps. What two warps compute at the same time takes no longer here.
pub const SPECIAL: u64 = 8;
