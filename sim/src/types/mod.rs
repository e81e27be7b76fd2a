//! Plain data that every part of the model names: lines, grids, words, waits. It has no state.

pub(crate) mod grid;
pub(crate) mod hash;
pub(crate) mod landing;
pub(crate) mod loc;
pub(crate) mod scope;
pub mod tensor_map;
pub(crate) mod tf32;
pub(crate) mod wait;
pub(crate) mod word;
