//! Scales a matrix on the GPU, or on the SM model if there is none.

use first_kernels::{Panel, scale};
use warpipe::host::{Device, Dtype, Error, Param, TensorSpec, data};
use warpipe::isa::kernel::{Image, Kernel};
use warpipe::pipeline::tile::TensorMap;

static IMAGE: Image = warpipe::kernel_image!("first_kernels");

/// factor · values, for a matrix of 64 columns.
fn scaled(device: &Device, values: &[f32], factor: f32) -> Result<Vec<f32>, Error> {
    let from = device.upload(&data::encode(values, Dtype::Bf16)?)?;
    let to = device.alloc(from.len())?;
    let rows = values.len() as u64 / 64;
    let spec = |buffer| TensorSpec {
        buffer,
        offset: 0,
        dtype: Dtype::Bf16,
        rows,
        cols: 64,
        pitch_bytes: 128,
    };
    let from_map = device.tensor_map_for::<&TensorMap<Panel>>(&spec(&from))?;
    let to_map = device.tensor_map_for::<&TensorMap<Panel>>(&spec(&to))?;

    let panels = rows.div_ceil(64) as u32;
    let ctas = panels.min(device.sms());
    let params =
        [Param::map(&from_map), Param::map(&to_map), Param::value(panels), Param::value(factor)];
    let module = device.load(&IMAGE)?;
    device.launch(&module, &scale::DESC, [ctas, 1, 1], &params, &device.stream())?;
    data::decode(&to.to_vec()?, Dtype::Bf16)
}

fn main() -> Result<(), Error> {
    let device = Device::auto();
    let values: Vec<f32> = (0..1000 * 64).map(|i| (i % 100) as f32).collect();
    let result = scaled(&device, &values, 2.0)?;
    println!("{}: {} values, the last one is {}", device.describe(), result.len(), result[63_999]);
    Ok(())
}

// example: test
#[cfg(test)]
mod tests {
    use super::*;
    use warpipe::host::testing::check;

    #[test]
    fn every_value_is_scaled_under_every_schedule() {
        check(20, |model| {
            let values: Vec<f32> = (0..600 * 64).map(|i| (i % 128) as f32).collect();
            let result = scaled(model, &values, 0.5)?;
            assert!(result.iter().zip(&values).all(|(have, value)| *have == 0.5 * value));
            Ok(())
        });
    }
}
// end
