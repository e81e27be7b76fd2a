//! Tensor maps of matrices in global memory, checked against TMA's rules before the driver encodes them.
//!
//! The rules are those of `cuTensorMapEncodeTiled` (CUDA driver API, "Tensor Map Object
//! Managment"). The driver reports every breach as `CUDA_ERROR_INVALID_VALUE`; this module reports
//! which number is wrong.

use crate::buffer::{Buffer, Memory, span};
use crate::device::{Backend, Device};
use crate::driver::{self, CuTensorMap, value};
use crate::error::Error;
use crate::tensor_error::{TensorError, dtype_name};
use isa::cp_async_bulk::TensorMapBytes;
use isa::kernel::{Dtype, KernelArg, ParamKind, ParamMeta};
use std::sync::Arc;

/// A row-major matrix inside a buffer.
#[derive(Clone, Copy)]
pub struct TensorSpec<'a> {
    /// The buffer that holds it.
    pub buffer: &'a Buffer,
    /// Bytes from the start of the buffer to the first element.
    pub offset: u64,
    /// Element type.
    pub dtype: Dtype,
    /// Rows (the outer dimension).
    pub rows: u64,
    /// Columns (the inner, contiguous dimension).
    pub cols: u64,
    /// Bytes from one row to the next.
    pub pitch_bytes: u64,
}

impl<'a> TensorSpec<'a> {
    /// The matrix at the start of `buffer`, with rows without gaps.
    pub fn packed(buffer: &'a Buffer, dtype: Dtype, rows: u64, cols: u64) -> Self {
        let pitch_bytes = cols.saturating_mul(dtype.size() as u64);
        Self { buffer, offset: 0, dtype, rows, cols, pitch_bytes }
    }
}

/// The box that one TMA instruction moves, and its swizzle in shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TensorBox {
    /// Rows.
    pub rows: u32,
    /// Columns in elements.
    pub cols: u32,
    /// Span of the swizzle in bytes: 0, 32, 64 or 128.
    pub swizzle_bytes: u32,
}

impl TensorBox {
    /// The box that a kernel's parameter states.
    pub const fn of(param: &ParamMeta) -> Self {
        Self { rows: param.box_rows, cols: param.box_cols, swizzle_bytes: param.swizzle_bytes }
    }
}

/// An encoded tensor map. It keeps the memory that it points to alive.
#[derive(Clone)]
pub struct TensorMap {
    bytes: TensorMapBytes,
    /// `None` for an untyped map of [`Device::tensor_map_nd`].
    dtype: Option<Dtype>,
    tile: TensorBox,
    /// Dimensions; 0 for an untyped map.
    rank: u32,
    memory: Arc<Memory>,
}

impl TensorMap {
    pub(crate) fn new(
        bytes: TensorMapBytes,
        dtype: Option<Dtype>,
        tile: TensorBox,
        rank: u32,
        memory: Arc<Memory>,
    ) -> Self {
        Self { bytes, dtype, tile, rank, memory }
    }

    /// The 128 bytes that the kernel receives.
    pub fn bytes(&self) -> &TensorMapBytes {
        &self.bytes
    }

    /// Element type; `None` for a map of [`Device::tensor_map_nd`].
    pub fn dtype(&self) -> Option<Dtype> {
        self.dtype
    }

    /// Box and swizzle.
    pub fn tile(&self) -> TensorBox {
        self.tile
    }

    pub(crate) fn backend(&self) -> &Backend {
        &self.memory.backend
    }

    /// The description that a launch compares with the kernel's parameter.
    pub(crate) fn meta(&self) -> ParamMeta {
        ParamMeta {
            kind: ParamKind::TensorMap as u32,
            size: 128,
            align: 64,
            dtype: self.dtype.map_or(0, |d| d as u32),
            box_rows: self.tile.rows,
            box_cols: self.tile.cols,
            swizzle_bytes: self.tile.swizzle_bytes,
            rank: self.rank,
        }
    }
}

impl Device {
    /// Encodes a tensor map of `spec` with boxes of `tile`. (`cuTensorMapEncodeTiled`.)
    ///
    /// # Errors
    /// [`Error::Tensor`] for a breach of TMA's rules or a matrix larger than its buffer;
    /// [`Error::ForeignDevice`] for a buffer of another device.
    pub fn tensor_map(&self, spec: &TensorSpec<'_>, tile: TensorBox) -> Result<TensorMap, Error> {
        self.tensor_map_of(&spec.buffer.memory, &Matrix::of(spec), tile)
    }

    /// Encodes a tensor map for the kernel argument type `A`, which states box, swizzle and element type.
    ///
    /// # Errors
    /// The errors of [`Device::tensor_map`], and [`Error::TensorArgument`] if `A` is no tensor map
    /// or has another element type.
    pub fn tensor_map_for<A: KernelArg>(&self, spec: &TensorSpec<'_>) -> Result<TensorMap, Error> {
        let param = A::META;
        let refuse = |right| Error::TensorArgument { argument: std::any::type_name::<A>(), right };
        let takes = crate::param::describe(&param);
        if param.kind != ParamKind::TensorMap as u32 {
            return Err(refuse(format!("it takes {takes}, and no tensor map")));
        }
        if param.dtype != spec.dtype as u32 {
            let dtype = dtype_name(spec.dtype);
            return Err(refuse(format!(
                "it takes {takes}, and the tensor has elements of {dtype}"
            )));
        }
        self.tensor_map(spec, TensorBox::of(&param))
    }

    /// [`Device::tensor_map`] for a matrix in memory that has several owners.
    pub(crate) fn tensor_map_of(
        &self,
        memory: &Arc<Memory>,
        matrix: &Matrix,
        tile: TensorBox,
    ) -> Result<TensorMap, Error> {
        self.owns(|| "the buffer of a tensor map".into(), &memory.backend)?;
        matrix.check(memory, tile)?;
        let addr = memory.addr + matrix.offset;
        let words = match &self.backend {
            Backend::Cuda(context) => {
                let _bound = context.bind()?;
                encode_cuda(addr, matrix, tile)?
            }
            Backend::Sim(_) => crate::model_tensor::encode(addr, matrix, tile)?,
        };
        Ok(TensorMap::new(TensorMapBytes(words), Some(matrix.dtype), tile, 2, Arc::clone(memory)))
    }
}

/// A matrix without its memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrix {
    pub offset: u64,
    pub dtype: Dtype,
    pub rows: u64,
    pub cols: u64,
    pub pitch: u64,
}

impl Matrix {
    fn of(spec: &TensorSpec<'_>) -> Self {
        let TensorSpec { offset, dtype, rows, cols, pitch_bytes: pitch, .. } = *spec;
        Self { offset, dtype, rows, cols, pitch }
    }

    /// Checks TMA's rules.
    pub fn check(&self, memory: &Memory, tile: TensorBox) -> Result<(), TensorError> {
        let Self { offset, dtype, rows, cols, pitch } = *self;
        let (name, size) = (dtype_name(dtype), dtype.size() as u64);
        // Coordinates are i32. Dimensions up to 2^32 could be encoded, but their ends not addressed.
        let extent = 1..1u64 << 31;
        if !extent.contains(&rows) || !extent.contains(&cols) {
            return Err(TensorError::Extent { rows, cols });
        }
        if !pitch.is_multiple_of(16) || pitch >= 1 << 40 {
            return Err(TensorError::Pitch { pitch });
        }
        let row = cols * size;
        if pitch < row {
            return Err(TensorError::Row { pitch, cols, dtype: name, row });
        }
        let len = memory.bytes as u64;
        let need = span(rows, pitch, row).and_then(|s| s.checked_add(offset)).unwrap_or(u64::MAX);
        if need > len {
            return Err(TensorError::OutOfBuffer { rows, pitch, offset, need, len });
        }
        let addr = memory.addr + offset;
        if !addr.is_multiple_of(16) {
            return Err(TensorError::Address { addr });
        }
        if !(1..=256).contains(&tile.rows) || !(1..=256).contains(&tile.cols) {
            return Err(TensorError::Box { rows: tile.rows, cols: tile.cols });
        }
        let span = tile.swizzle_bytes;
        if ![0, 32, 64, 128].contains(&span) {
            return Err(TensorError::Swizzle { bytes: span });
        }
        let bytes = u64::from(tile.cols) * size;
        if !bytes.is_multiple_of(16) || (span > 0 && bytes > u64::from(span)) {
            let limit = match span {
                0 => String::new(),
                _ => format!(" and at most the swizzle's {span}"),
            };
            return Err(TensorError::BoxRow { cols: tile.cols, dtype: name, bytes, limit });
        }
        Ok(())
    }
}

/// The driver's number of an element type. TMA moves all types as they are, except that it rounds an f32 to a
/// tf32 when it loads it.
pub(crate) fn cuda_dtype(dtype: Dtype) -> u32 {
    match dtype {
        Dtype::Bf16 => value::TENSOR_BF16,
        Dtype::F16 => value::TENSOR_F16,
        Dtype::F32 => value::TENSOR_F32,
        Dtype::U8 | Dtype::E4m3 | Dtype::E5m2 | Dtype::I8 => value::TENSOR_U8,
        Dtype::U32 => value::TENSOR_U32,
        Dtype::I32 => value::TENSOR_I32,
        Dtype::Tf32 => value::TENSOR_TF32,
    }
}

/// The driver's number of a swizzle.
pub(crate) fn cuda_swizzle(span: u32) -> u32 {
    match span {
        32 => value::TENSOR_SWIZZLE_32,
        64 => value::TENSOR_SWIZZLE_64,
        128 => value::TENSOR_SWIZZLE_128,
        _ => value::TENSOR_SWIZZLE_NONE,
    }
}

fn encode_cuda(addr: u64, matrix: &Matrix, tile: TensorBox) -> Result<[u64; 16], Error> {
    let mut map = CuTensorMap([0; 16]);
    let (dims, strides) = ([matrix.cols, matrix.rows], [matrix.pitch]);
    let (box_dims, steps) = ([tile.cols, tile.rows], [1u32, 1]);
    // SAFETY: every array has the rank's length (strides one less). `map` has the size and alignment of
    // the driver's type. The driver only records the address.
    unsafe {
        driver::cuTensorMapEncodeTiled(
            &raw mut map,
            cuda_dtype(matrix.dtype),
            2,
            addr as *mut _,
            dims.as_ptr(),
            strides.as_ptr(),
            box_dims.as_ptr(),
            steps.as_ptr(),
            value::TENSOR_NO_INTERLEAVE,
            cuda_swizzle(tile.swizzle_bytes),
            // L2 sectors are fetched in lines of 128 bytes, the row of a swizzled tile.
            value::TENSOR_L2_128,
            // Reads outside of the tensor give zero.
            value::TENSOR_FILL_ZERO,
        )
    }?;
    Ok(map.0)
}
