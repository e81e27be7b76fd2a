//! Tiles: how elements lie in shared memory, and what moves them there and back.
//!
//! Invariant: a tile's type fixes its element type, its shape, the contiguous dimension and the
//! swizzle, so TMA, `cp.async` and wgmma agree on where each element lies and how many bytes a tile
//! has.
//!
//! [`Tile`], [`Vector`], [`ScaleBlocks`] and [`TileShape`] are the layout. [`TensorMap`] and [`Load`] move tiles by TMA, and
//! [`TensorMaps`] are maps that a kernel makes for the next one.
//! [`MatrixView`] and [`TileCopy`] move them by `cp.async`, without a tensor map.

mod maps;
mod matrix;
mod scales;
mod shape;
mod tensor;
mod vector;

pub use maps::{AcquiredMap, AcquiredMaps, MatrixPart, TensorMaps, TensorMapsMut, TensorMemory};
pub use matrix::*;
pub use scales::ScaleBlocks;
pub use shape::*;
pub(crate) use shape::{by_chunks, by_fragments, facts, swizzled_64};
pub use tensor::*;
pub use vector::Vector;
