//! What the lanes of a warp do together: aligned instructions, meetings, matrices, registers.

pub(crate) mod aligned;
pub(crate) mod matrices;
pub(crate) mod meeting;
pub(crate) mod registers;
pub(crate) mod rounds;
pub(crate) mod warps;
