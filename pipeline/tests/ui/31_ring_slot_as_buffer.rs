//! The epilogue's results written into a slot of the load ring.
mod support;
use support::*;

fn write(loads: &mut Loads, values: [f32; 8], to: &TensorMap<Panel>) {
    let mut out = loads.acquire();
    out.put(0, values);
    out.publish().store(to, 0, 0);
}

fn main() {}
