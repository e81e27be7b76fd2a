//! The host's side of the kernel: its image, its launch, and what it should compute.

use kernels::{Panel, scale};
use warpipe::host::{Buffer, Device, Dtype, Error, Module, Param, Stream, TensorSpec, data};
use warpipe::isa::kernel::Image;
use warpipe::prelude::{Kernel, TensorMap};

/// The kernel as PTX, which `build.rs` compiles.
pub static IMAGE: Image = warpipe::kernel_image!("{{crate}}_kernels");

/// The kernel, loaded on a device.
pub struct Scale {
    device: Device,
    module: Module,
}

impl Scale {
    /// Loads the kernel on a GPU or on the SM model.
    pub fn new(device: &Device) -> Result<Self, Error> {
        Ok(Self {
            device: device.clone(),
            module: device.load(&IMAGE)?,
        })
    }

    /// Queues y = factor · x on `stream`, for matrices of bf16 with rows without gaps.
    ///
    /// # Errors
    /// TMA can't read rows whose size is not a multiple of 16 bytes; a buffer is too small; the launch fails.
    pub fn launch(
        &self,
        x: &Buffer,
        y: &mut Buffer,
        [rows, cols]: [u32; 2],
        factor: f32,
        stream: &Stream,
    ) -> Result<(), Error> {
        let map = |buffer: &Buffer| {
            let matrix = TensorSpec::packed(buffer, Dtype::Bf16, rows.into(), cols.into());
            self.device.tensor_map_for::<&TensorMap<Panel>>(&matrix)
        };
        let (x, y) = (map(x)?, map(y)?);
        let (down, across) = (rows.div_ceil(64), cols.div_ceil(64));
        let panels = down * across;
        let params = [
            Param::map(&x),
            Param::map(&y),
            Param::value(panels),
            Param::value(across),
            Param::value(factor),
        ];
        let grid = [panels.min(self.device.sms()), 1, 1];
        self.device
            .launch(&self.module, &scale::DESC, grid, &params, stream)
    }

    /// factor · x: copies x to the device, launches the kernel, and copies the result back.
    ///
    /// # Errors
    /// The errors of [`Scale::launch`].
    pub fn run(&self, x: &[f32], shape: [u32; 2], factor: f32) -> Result<Vec<f32>, Error> {
        let x = self.device.upload(&data::encode(x, Dtype::Bf16)?)?;
        let mut y = self.device.alloc(x.len())?;
        self.launch(&x, &mut y, shape, factor, &self.device.stream())?;
        data::decode(&y.to_vec()?, Dtype::Bf16)
    }
}

/// factor · x on the CPU, with x and the result rounded to bf16.
pub fn reference(x: &[f32], factor: f32) -> Result<Vec<f32>, Error> {
    let x = data::rounded(x, Dtype::Bf16)?;
    let y: Vec<f32> = x.iter().map(|x| factor * x).collect();
    data::rounded(&y, Dtype::Bf16)
}
