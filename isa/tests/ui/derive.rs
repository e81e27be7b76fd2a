use warpipe_isa::kernel::KernelArg;
use warpipe_isa::slice::DeviceSlice;

#[derive(Clone, Copy, KernelArg)]
struct NoRepr {
    rows: u32,
}

#[repr(C)]
#[derive(KernelArg)]
struct NotCopy {
    rows: u32,
}

#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
struct HasABool {
    rows: u32,
    turned: bool,
}

#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
struct HasASlice<'a> {
    values: DeviceSlice<'a, f32>,
}

#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
enum Either {
    One,
    Two,
}

#[repr(C, packed)]
#[derive(Clone, Copy, KernelArg)]
struct Packed {
    rows: u32,
}

#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
struct Nothing;

fn main() {}
