use warpipe_isa::kernel;

#[kernel(threads = 128)]
struct Gemm;

fn main() {}
