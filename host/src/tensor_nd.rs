//! Tensor maps of any rank.
//!
//! The maps of [`crate::TensorSpec`] are matrices, and the kernel's parameter states their box. Here the caller states the
//! box. [`Device::tensor_map_nd_for`] also compares it with the kernel's parameter. [`Device::tensor_map_nd`] compares
//! nothing; its map is for a kernel whose parameter is an untyped tensor map (`ParamMeta` without element type and box).

use crate::buffer::Buffer;
use crate::device::{Backend, Device};
use crate::driver::{self, CuTensorMap, value};
use crate::error::Error;
use crate::tensor::{TensorBox, TensorMap, cuda_dtype, cuda_swizzle};
use crate::tensor_error::{TensorError, dtype_name};
use isa::cp_async_bulk::TensorMapBytes;
use isa::kernel::{Dtype, KernelArg, ParamKind};
use pipeline::tile::RaggedRows;
use std::sync::Arc;

/// A tensor at the start of a buffer, and the box that one TMA instruction moves.
#[derive(Clone, Copy)]
pub struct TensorNd<'a> {
    /// The buffer that holds it.
    pub buffer: &'a Buffer,
    /// Element type.
    pub dtype: Dtype,
    /// Elements of each dimension, innermost first: 1 to 5 dimensions.
    pub dims: &'a [u64],
    /// Bytes from one element to the next, for each dimension except the innermost.
    pub strides: &'a [u64],
    /// Elements of the box in each dimension.
    pub box_dims: &'a [u32],
    /// Span of the swizzle in bytes: 0, 32, 64 or 128.
    pub swizzle_bytes: u32,
}

impl TensorNd<'_> {
    /// Bytes of the box; `u32::MAX` if there are more.
    pub fn box_bytes(&self) -> u32 {
        self.box_dims.iter().fold(self.dtype.size() as u32, |bytes, &dim| bytes.saturating_mul(dim))
    }

    /// Checks that the ranks agree and that the tensor lies in its buffer. The encoder cannot check this.
    fn check(&self) -> Result<(), TensorError> {
        let rank = self.dims.len();
        if !(1..=5).contains(&rank)
            || self.strides.len() + 1 != rank
            || self.box_dims.len() != rank
            || self.dims.contains(&0)
        {
            return Err(TensorError::Rank {
                dims: rank,
                strides: self.strides.len(),
                box_dims: self.box_dims.len(),
            });
        }
        let last = |(&dim, &stride): (&u64, &u64)| (dim - 1).checked_mul(stride);
        let need = self.dims[1..]
            .iter()
            .zip(self.strides)
            .map(last)
            .try_fold(0u64, |sum, bytes| sum.checked_add(bytes?))
            .and_then(|outer| {
                self.dims[0].checked_mul(self.dtype.size() as u64)?.checked_add(outer)
            })
            .unwrap_or(u64::MAX);
        let len = self.buffer.len() as u64;
        if need > len {
            let pitch = self.strides.first().copied().unwrap_or(0);
            let rows = self.dims[1..].iter().fold(1, |rows: u64, &dim| rows.saturating_mul(dim));
            return Err(TensorError::OutOfBuffer { rows, pitch, offset: 0, need, len });
        }
        Ok(())
    }
}

impl Device {
    /// Encodes a tensor map of any rank.
    ///
    /// # Errors
    /// A tensor larger than its buffer; ranks that differ; a buffer of another device; any other error
    /// that the driver or the model reports.
    pub fn tensor_map_nd(&self, spec: &TensorNd<'_>) -> Result<TensorMap, Error> {
        self.owns(|| "the buffer of a tensor map".into(), &spec.buffer.memory.backend)?;
        spec.check()?;
        let words = self.encode_nd(spec.buffer.addr(), spec)?;
        let tile = TensorBox { rows: 0, cols: 0, swizzle_bytes: 0 };
        Ok(TensorMap::new(TensorMapBytes(words), None, tile, 0, Arc::clone(&spec.buffer.memory)))
    }

    /// Encodes a tensor map for parts of the rows of a tensor. `spec` is the tensor (column, row, matrix) with all rows.
    ///
    /// For loads it is that of [`RaggedRows`]. For stores, to parts of at most `longest` rows, it has no last dimension: its address
    /// lies `longest` rows in front of the tensor, and row r of a part of L rows is row `longest` - L + r. A load of a box outside of
    /// it would read there.
    pub(crate) fn tensor_map_ragged(
        &self,
        spec: &TensorNd<'_>,
        longest: Option<u64>,
    ) -> Result<[u64; 16], Error> {
        spec.check()?;
        let (&[columns, rows, heads], &[row, head], &[box_columns, box_rows, _]) =
            (spec.dims, spec.strides, spec.box_dims)
        else {
            return Err(TensorError::Rank {
                dims: spec.dims.len(),
                strides: spec.strides.len(),
                box_dims: spec.box_dims.len(),
            }
            .into());
        };
        let address = spec.buffer.addr();
        if let Some(longest) = longest {
            let spec = TensorNd {
                dims: &[columns, longest, heads, rows + 1],
                strides: &[row, head, row],
                box_dims: &[box_columns, box_rows, 1, 1],
                ..*spec
            };
            return self.encode_nd(address.wrapping_sub(longest * row), &spec);
        }
        let most = u64::from(RaggedRows::ROWS);
        let spec = TensorNd {
            dims: &[columns, most, heads, rows + 1, most + 1],
            strides: &[row, head, row, RaggedRows::wrap(row)],
            box_dims: &[box_columns, box_rows, 1, 1, 1],
            ..*spec
        };
        self.encode_nd(address, &spec)
    }

    /// Encodes a checked tensor map of a tensor at `address`.
    pub(crate) fn encode_nd(&self, address: u64, spec: &TensorNd<'_>) -> Result<[u64; 16], Error> {
        match &self.backend {
            Backend::Cuda(context) => {
                let _bound = context.bind()?;
                encode_cuda(address, spec)
            }
            Backend::Sim(_) => crate::model_tensor::encode_nd(address, spec),
        }
    }

    /// Encodes a tensor map of any rank for the kernel argument type `A`, which states rank, box,
    /// swizzle and element type. `spec` states them too, and must agree.
    ///
    /// # Errors
    /// The errors of [`Device::tensor_map_nd`], and [`Error::TensorArgument`] if `A` takes another
    /// tensor map.
    pub fn tensor_map_nd_for<A: KernelArg>(&self, spec: &TensorNd<'_>) -> Result<TensorMap, Error> {
        let param = A::META;
        let (rank, tile) = (spec.dims.len() as u32, TensorBox::of(&param));
        let mut box_dims = vec![1; spec.dims.len()];
        for (dim, size) in box_dims.iter_mut().zip([tile.cols, tile.rows]) {
            *dim = size;
        }
        let same = param.kind == ParamKind::TensorMap as u32
            && param.rank == rank
            && param.dtype == spec.dtype as u32
            && box_dims == spec.box_dims
            && tile.swizzle_bytes == spec.swizzle_bytes;
        if !same {
            return Err(Error::TensorArgument {
                argument: std::any::type_name::<A>(),
                right: format!(
                    "it takes {}, and the tensor has {rank} dimensions of {}, boxes of {:?} and \
                     swizzle {}",
                    crate::param::describe(&param),
                    dtype_name(spec.dtype),
                    spec.box_dims,
                    spec.swizzle_bytes
                ),
            });
        }
        let map = self.tensor_map_nd(spec)?;
        let memory = Arc::clone(&spec.buffer.memory);
        Ok(TensorMap::new(*map.bytes(), Some(spec.dtype), tile, rank, memory))
    }
}

fn encode_cuda(address: u64, spec: &TensorNd<'_>) -> Result<[u64; 16], Error> {
    let mut map = CuTensorMap([0; 16]);
    let steps = [1u32; 5];
    // SAFETY: `check` ensured that dimensions and box have the rank's length and strides one less. `map`
    // has the size and alignment of the driver's type. The driver only records the address.
    unsafe {
        driver::cuTensorMapEncodeTiled(
            &raw mut map,
            cuda_dtype(spec.dtype),
            spec.dims.len() as u32,
            address as *mut _,
            spec.dims.as_ptr(),
            spec.strides.as_ptr(),
            spec.box_dims.as_ptr(),
            steps.as_ptr(),
            value::TENSOR_NO_INTERLEAVE,
            cuda_swizzle(spec.swizzle_bytes),
            // A box's row is a line of the L2 cache. With 256 bytes, decode read its caches 7 % more slowly.
            value::TENSOR_L2_128,
            value::TENSOR_FILL_ZERO,
        )
    }?;
    Ok(map.0)
}
