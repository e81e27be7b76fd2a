use warpipe_isa::kernel;

#[kernel(threads = 128, stages = 4)]
fn unknown_key() {}

#[kernel(threads = 128, threads = 256)]
fn twice() {}

#[kernel(threads = 128, cluster = 2)]
fn cluster_of_one_dimension() {}

#[kernel(threads = 128, cluster = (2, 1))]
fn cluster_of_two_dimensions() {}

#[kernel(threads(128))]
fn no_equals_sign() {}

fn main() {}
