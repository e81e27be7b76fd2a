//! Tiles in shared memory, and the tensor maps that move them.

mod matrix;
mod shape;
mod tensor;

pub use matrix::*;
pub use shape::*;
pub use tensor::*;
