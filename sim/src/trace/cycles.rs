//! What things take, in cycles.

/// An instruction, with the arithmetic around it, which the model does not see.
pub const INSTRUCTION: u64 = 4;
/// From a copy's start to its first byte; and from when a store has read its source until it is
/// written. About what the L2 cache takes on an H100.
pub const LATENCY: u64 = 600;
/// Bytes that come into an SM in one cycle, and those that leave it.
pub const BYTES: u64 = 64;
/// Multiplications that the tensor cores of an SM do in one cycle, of 16-bit operands.
pub const MULTIPLICATIONS: u64 = 2048;
