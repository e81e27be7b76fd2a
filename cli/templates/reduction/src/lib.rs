//! The host's side of the kernel: its image, its launch, and what it should compute.

use kernels::{BLOCK_ROWS, Block, TILE_COLS, row_sums};
use warpipe::host::{Buffer, Device, Dtype, Error, Module, Param, Stream, TensorSpec, data};
use warpipe::isa::kernel::Image;
use warpipe::prelude::{Kernel, TensorMap};

/// The kernel as PTX, which `build.rs` compiles.
pub static IMAGE: Image = warpipe::kernel_image!("{{crate}}_kernels");

/// The kernel, loaded on a device.
pub struct RowSums {
    device: Device,
    module: Module,
}

impl RowSums {
    /// Loads the kernel on a GPU or on the SM model.
    pub fn new(device: &Device) -> Result<Self, Error> {
        Ok(Self {
            device: device.clone(),
            module: device.load(&IMAGE)?,
        })
    }

    /// Queues the sums of the rows of `x` on `stream`. `x` is a matrix of bf16 with rows without gaps; `sums` has one
    /// f32 for each row.
    ///
    /// # Errors
    /// TMA can't read rows whose size is not a multiple of 16 bytes; a buffer is too small; the launch fails.
    pub fn launch(
        &self,
        x: &Buffer,
        sums: &mut Buffer,
        [rows, cols]: [u32; 2],
        stream: &Stream,
    ) -> Result<(), Error> {
        let matrix = TensorSpec::packed(x, Dtype::Bf16, rows.into(), cols.into());
        let x = self.device.tensor_map_for::<&TensorMap<Block>>(&matrix)?;
        let blocks = rows.div_ceil(BLOCK_ROWS);
        let params = [
            Param::map(&x),
            Param::slice_mut::<f32>(sums),
            Param::value(blocks),
            Param::value(cols.div_ceil(TILE_COLS)),
        ];
        let grid = [blocks.min(self.device.sms()), 1, 1];
        self.device
            .launch(&self.module, &row_sums::DESC, grid, &params, stream)
    }

    /// The sums of the rows: copies x to the device, launches the kernel, and copies the result back.
    ///
    /// # Errors
    /// The errors of [`RowSums::launch`].
    pub fn run(&self, x: &[f32], shape: [u32; 2]) -> Result<Vec<f32>, Error> {
        let x = self.device.upload(&data::encode(x, Dtype::Bf16)?)?;
        let mut sums = self.device.alloc(4 * shape[0] as usize)?;
        self.launch(&x, &mut sums, shape, &self.device.stream())?;
        data::decode(&sums.to_vec()?, Dtype::F32)
    }
}

/// The sums of the rows on the CPU, in f64, with x rounded to bf16.
pub fn reference(x: &[f32], [_, cols]: [u32; 2]) -> Result<Vec<f64>, Error> {
    let x = data::rounded(x, Dtype::Bf16)?;
    Ok(x.chunks(cols as usize)
        .map(|row| row.iter().copied().map(f64::from).sum())
        .collect())
}

/// The largest difference between the sums and the reference, relative to the sum of the row's magnitudes.
pub fn error(x: &[f32], shape: [u32; 2], sums: &[f32]) -> Result<f64, Error> {
    let magnitudes: Vec<f32> = x.iter().map(|x| x.abs()).collect();
    let (want, scale) = (reference(x, shape)?, reference(&magnitudes, shape)?);
    let error = |i: usize| ((f64::from(sums[i]) - want[i]) / scale[i].max(f64::MIN_POSITIVE)).abs();
    // In this order a NaN is larger than any number.
    Ok((0..want.len())
        .map(error)
        .max_by(f64::total_cmp)
        .unwrap_or_default())
}
