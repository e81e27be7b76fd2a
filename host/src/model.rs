//! The SM model as a device: its memory, its configuration, and launches on it.
//!
//! Only this file uses the API of `sim`, apart from the report in [`Error::Model`] and
//! [`crate::testing`].

use crate::error::Error;
use crate::tensor::{Matrix, TensorBox};
use crate::tensor_nd::TensorNd;
use isa::kernel::{Dtype, KernelDesc};
use sim::tensor_map::{DataType, Swizzle, TensorMapDesc};
use std::sync::{Mutex, PoisonError};

/// A model of the SMs of a device, with its own global memory.
pub(crate) struct Model {
    pub config: sim::Config,
    memory: sim::GlobalMemory,
    /// Sum over all launches that completed without an error.
    stats: Mutex<sim::Stats>,
}

/// Parameter addresses, shared by the model's worker threads.
struct ParamPtrs<'a>(&'a [*const u8]);

// SAFETY: the pointers point to parameter bytes that `launch` borrows, and nothing writes them meanwhile.
unsafe impl Sync for ParamPtrs<'_> {}

impl ParamPtrs<'_> {
    fn get(&self) -> &[*const u8] {
        self.0
    }
}

impl Model {
    pub fn new(config: sim::Config) -> Self {
        Self { config, memory: sim::GlobalMemory::new(), stats: Mutex::default() }
    }

    pub fn stats(&self) -> sim::Stats {
        *self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn alloc(&self, bytes: usize) -> u64 {
        self.memory.alloc(bytes)
    }

    pub fn free(&self, addr: u64) {
        // This fails only if `addr` is not allocated, and its owner, a buffer, frees it once.
        let _ = self.memory.free(addr);
    }

    pub fn read(&self, addr: u64, out: &mut [u8]) -> Result<(), Error> {
        self.memory.read(addr, out).map_err(Error::ModelMemory)
    }

    pub fn write(&self, addr: u64, bytes: &[u8]) -> Result<(), Error> {
        self.memory.write(addr, bytes).map_err(Error::ModelMemory)
    }

    /// Whether the first and the last of `bytes` > 0 bytes at `addr` lie in the model's memory.
    pub fn holds(&self, addr: u64, bytes: u64) -> bool {
        [addr, addr + (bytes - 1)].iter().all(|&at| self.memory.read(at, &mut [0]).is_ok())
    }

    /// Runs a kernel to completion.
    ///
    /// # Safety
    /// `params` must have been checked against `desc.meta`: pointer `i` points to the bytes of parameter
    /// `i`, has the alignment that `desc.meta` states, and stays valid during the call.
    pub unsafe fn launch(
        &self,
        desc: &KernelDesc,
        grid: [u32; 3],
        params: &[*const u8],
    ) -> Result<sim::Stats, Error> {
        let shape = sim::Grid {
            grid,
            block: [desc.meta.threads, 1, 1],
            cluster: desc.meta.cluster,
            min_ctas: desc.meta.min_ctas,
            smem_bytes: desc.meta.smem_bytes,
            name: desc.meta.name(),
        };
        let params = ParamPtrs(params);
        let entry = || {
            // SAFETY: the caller's contract.
            unsafe { (desc.entry)(params.get()) }
        };
        let stats =
            sim::launch(&self.config, &self.memory, &shape, &entry).map_err(Error::Model)?;
        self.stats.lock().unwrap_or_else(PoisonError::into_inner).add(&stats);
        Ok(stats)
    }
}

/// Encodes a checked tensor map in the model's format.
pub(crate) fn encode(addr: u64, matrix: &Matrix, tile: TensorBox) -> Result<[u64; 16], Error> {
    let desc = TensorMapDesc {
        dtype: data_type(matrix.dtype),
        rank: 2,
        addr,
        dims: [matrix.cols, matrix.rows, 1, 1, 1],
        strides: [matrix.pitch, 0, 0, 0],
        box_dims: [tile.cols, tile.rows, 1, 1, 1],
        swizzle: swizzle(tile.swizzle_bytes),
    };
    sim::tensor_map::encode(&desc).map_err(Error::ModelTensor)
}

/// Encodes a checked tensor map of any rank in the model's format.
pub(crate) fn encode_nd(spec: &TensorNd<'_>) -> Result<[u64; 16], Error> {
    let desc = TensorMapDesc {
        dtype: data_type(spec.dtype),
        rank: spec.dims.len() as u32,
        addr: spec.buffer.addr(),
        dims: std::array::from_fn(|i| spec.dims.get(i).copied().unwrap_or(1)),
        strides: std::array::from_fn(|i| spec.strides.get(i).copied().unwrap_or(0)),
        box_dims: std::array::from_fn(|i| spec.box_dims.get(i).copied().unwrap_or(1)),
        swizzle: swizzle(spec.swizzle_bytes),
    };
    sim::tensor_map::encode(&desc).map_err(Error::ModelTensor)
}

fn data_type(dtype: Dtype) -> DataType {
    match dtype {
        Dtype::Bf16 => DataType::Bf16,
        Dtype::F16 => DataType::F16,
        Dtype::F32 => DataType::F32,
        Dtype::U8 => DataType::U8,
        Dtype::U32 => DataType::U32,
    }
}

fn swizzle(span: u32) -> Swizzle {
    match span {
        32 => Swizzle::B32,
        64 => Swizzle::B64,
        128 => Swizzle::B128,
        _ => Swizzle::None,
    }
}
