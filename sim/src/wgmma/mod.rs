//! The tensor core: wgmma's operands in shared memory, and the warp groups that issue it.

pub(crate) mod groups;
pub(crate) mod held;
pub(crate) mod operand;
pub(crate) mod pool;
pub(crate) mod product;
pub(crate) mod short;
