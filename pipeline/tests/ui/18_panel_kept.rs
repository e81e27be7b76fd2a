//! A panel kept while the next is acquired, whose wait would not cover it.
mod support;
use support::*;

fn write(stores: &mut Out, to: &TensorMap<Panel>, values: [f32; 8]) {
    let mut first = stores.acquire();
    let second = stores.acquire();
    first.put(0, values);
    first.publish().store(to, 0, 0);
    second.publish().store(to, 64, 0);
}

fn main() {}
