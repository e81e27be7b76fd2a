//! Tensor memory and the multiplications into it (tcgen05).
//!
//! A multiplication is computed when it is issued, from what shared memory holds then. Its operands count as being read
//! until the arrival of a commit that covers it. What may follow what in tensor memory is the race detector's affair.

pub(crate) mod copy;
pub(crate) mod descriptor;
pub(crate) mod memory;
pub(crate) mod pair;
pub(crate) mod scaled;
pub(crate) mod umma;
