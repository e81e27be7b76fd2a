//! Tensor maps of batches of matrices, for kernels whose parameters have three dimensions.

use crate::buffer::{Buffer, Memory};
use crate::device::Device;
use crate::error::Error;
use crate::tensor::{Matrix, TensorBox, TensorMap};
use crate::tensor_nd::TensorNd;
use isa::cp_async_bulk::TensorMapBytes;
use std::sync::Arc;

impl Device {
    /// Encodes a tensor map of `batch` matrices, `stride` bytes apart, with boxes of `tile` in one of them.
    ///
    /// The caller has checked that the whole batch lies in the memory, and that the stride is a multiple of 16 below 2^40.
    /// With a stride of 0 all matrices are the first one.
    pub(crate) fn tensor_map_of_batch(
        &self,
        memory: &Arc<Memory>,
        matrix: &Matrix,
        [batch, stride]: [u64; 2],
        tile: TensorBox,
    ) -> Result<TensorMap, Error> {
        self.owns(|| "the buffer of a tensor map".into(), &memory.backend)?;
        matrix.check(memory, tile)?;
        let Matrix { offset, dtype, rows, cols, pitch } = *matrix;
        let spec = TensorNd {
            buffer: &Buffer { memory: Arc::clone(memory) },
            dtype,
            dims: &[cols, rows, batch],
            strides: &[pitch, stride],
            box_dims: &[tile.cols, tile.rows, 1],
            swizzle_bytes: tile.swizzle_bytes,
        };
        let words = self.encode_nd(memory.addr + offset, &spec)?;
        Ok(TensorMap::new(TensorMapBytes(words), Some(dtype), tile, 3, Arc::clone(memory)))
    }
}
