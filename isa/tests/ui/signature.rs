use warpipe_isa::kernel;

#[kernel(threads = 128)]
fn generic<T: Copy>(x: T) {}

#[kernel(threads = 128)]
fn lifetime<'a>(x: warpipe_isa::slice::DeviceSlice<'a, f32>) {}

#[kernel(threads = 128)]
fn hidden_generic(x: impl Copy) {}

#[kernel(threads = 128)]
fn returns(x: u32) -> u32 {
    x
}

#[kernel(threads = 128)]
unsafe fn not_safe(x: u32) {}

#[kernel(threads = 128)]
async fn asynchronous(x: u32) {}

#[kernel(threads = 128)]
const fn constant(x: u32) {}

#[kernel(threads = 128)]
extern "C" fn foreign(x: u32) {}

#[kernel(threads = 128)]
fn thirteen(
    a: u32,
    b: u32,
    c: u32,
    d: u32,
    e: u32,
    f: u32,
    g: u32,
    h: u32,
    i: u32,
    j: u32,
    k: u32,
    l: u32,
    m: u32,
) {
}

struct Method;
impl Method {
    #[kernel(threads = 128)]
    fn method(&self, x: u32) {}
}

fn main() {}
