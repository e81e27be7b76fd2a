//! c = a + b on a device.

use crate::IMAGE;

// example: launch
use book_kernels::add::add;
use warpipe::host::{Device, Error, Param};
use warpipe::isa::kernel::Kernel;

/// a + b, computed by the kernel `add`.
pub fn sum(device: &Device, a: &[f32], b: &[f32]) -> Result<Vec<f32>, Error> {
    let bytes = |values: &[f32]| values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let (a, b) = (device.upload(&bytes(a))?, device.upload(&bytes(b))?);
    let mut c = device.alloc(a.len())?;

    let module = device.load(&IMAGE)?;
    let blocks = (a.len() as u32 / 4).div_ceil(256);
    let params =
        [Param::slice::<f32>(&a), Param::slice::<f32>(&b), Param::slice_mut::<f32>(&mut c)];
    device.launch(&module, &add::DESC, [blocks, 1, 1], &params, &device.stream())?;

    let values = c.to_vec()?;
    Ok(values.chunks_exact(4).map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]])).collect())
}
// end
