use warpipe_isa::kernel;

#[kernel(threads = 128)]
fn raw_pointer(_x: *const f32) {}

#[kernel(threads = 128)]
fn host_slice(_x: &[f32]) {}

fn main() {}
