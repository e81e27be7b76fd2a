//! c = a + b, one element for each thread: a kernel in the style of CUDA.

// example: kernel
use warpipe::isa::slice::{DeviceSlice, DeviceSliceMut};
use warpipe::isa::thread;
use warpipe::kernel;

/// c = a + b.
#[kernel(threads = 256)]
pub fn add(a: DeviceSlice<f32>, b: DeviceSlice<f32>, c: DeviceSliceMut<f32>) {
    let i = (thread::block_idx_x() * thread::block_dim_x() + thread::thread_idx_x()) as usize;
    if let (Some(x), Some(y)) = (a.get(i), b.get(i)) {
        c.set(i, x + y);
    }
}
// end
