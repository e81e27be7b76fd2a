use warpipe_isa::kernel;

#[kernel(threads = 100)]
fn not_whole_warps() {}

#[kernel(threads = 0)]
fn no_warp() {}

#[kernel(threads = 1024 + 32)]
fn too_many_threads() {}

#[kernel(threads = 128, cluster = (4, 5, 1))]
fn too_many_ctas() {}

#[kernel(threads = 128, cluster = (2, 0, 1))]
fn empty_cluster() {}

#[kernel(threads = 128, smem = 228 * 1024)]
fn too_much_shared_memory() {}

#[kernel(threads = 1024, min_ctas = 3)]
fn more_threads_than_an_sm() {}

#[kernel]
fn no_threads_and_no_token() {}

#[kernel(threads = 128)]
fn a_kernel_whose_name_has_more_than_the_sixty_three_bytes_of_metadata() {}

fn main() {}
