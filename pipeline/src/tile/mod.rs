//! Tiles: the layout of elements in shared memory, and the copies to and from global memory.
//!
//! Invariant: a tile's type fixes its element type, its shape, the contiguous dimension and the
//! swizzle. So TMA, `cp.async` and wgmma agree on the position of each element and on the bytes of a
//! tile.
//!
//! [`Tile`], [`Vector`], [`ScaleBlocks`] and [`TileShape`] are the layout. [`TensorMap`] and [`Load`] move tiles by TMA.
//! [`TensorMaps`] are tensor maps that one kernel writes for the next. [`MatrixView`] and [`TileCopy`] move tiles by
//! `cp.async`, without a tensor map.

mod maps;
mod matrix;
mod ragged;
mod scales;
mod shape;
mod tensor;
mod vector;

pub use maps::{AcquiredMap, AcquiredMaps, MatrixPart, TensorMaps, TensorMapsMut, TensorMemory};
pub use matrix::*;
pub use ragged::RaggedRows;
pub use scales::ScaleBlocks;
pub use shape::*;
pub(crate) use shape::{by_chunks, by_fragments, facts, swizzled_64};
pub use tensor::*;
pub use vector::Vector;
