//! Runs the kernel on the model of the SM.

use own_kernels::{Panel, own_copy};
use warpipe::host::{Device, Dtype, Error, Param, SimConfig, TensorSpec, data};
use warpipe::isa::kernel::{Image, Kernel};
use warpipe::pipeline::prelude::TensorMap;

static IMAGE: Image = warpipe::kernel_image!("own_kernels");

fn main() -> Result<(), Error> {
    let (rows, cols) = (2 * 64, 64);
    let model = Device::sim(SimConfig::default());
    let values: Vec<f32> = (0..rows * cols).map(|i| (i % 128) as f32).collect();
    let from = model.upload(&data::encode(&values, Dtype::Bf16)?)?;
    let to = model.alloc(from.len())?;
    let (rows, cols, dtype) = (rows as u64, cols as u64, Dtype::Bf16);
    let spec =
        |buffer| TensorSpec { buffer, offset: 0, dtype, rows, cols, pitch_bytes: 2 * cols };
    let source = model.tensor_map_for::<&TensorMap<Panel>>(&spec(&from))?;
    let target = model.tensor_map_for::<&TensorMap<Panel>>(&spec(&to))?;
    let params = [Param::map(&source), Param::map(&target), Param::value(2u32)];
    model.launch_on_model(&<own_copy as Kernel>::DESC, [1, 1, 1], &params)?;
    assert_eq!(data::decode(&to.to_vec()?, dtype)?, values);
    let names: Vec<&str> = IMAGE.kernels.iter().map(|kernel| kernel.name()).collect();
    println!("own_copy copies on the SM model; its image has {}", names.join(", "));
    Ok(())
}
