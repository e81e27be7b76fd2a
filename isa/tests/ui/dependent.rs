use warpipe_isa::kernel;
use warpipe_isa::slice::DeviceSlice;

#[kernel(threads = 128, dependent = true)]
fn reads_too_early(_n: u32, _values: DeviceSlice<f32>) {}

const LATER: bool = true;
#[kernel(threads = 128, dependent = LATER)]
fn not_a_literal(_n: u32) {}

#[kernel(threads = 128, dependent = true)]
fn a_value_is_never_too_early(_n: u32) {}

fn main() {}
