//! A store through a tensor map of another box.
mod support;
use support::*;

fn write(stores: &mut Out, to: &TensorMap<Tile<bf16, 128, 64>>) {
    stores.acquire().publish().store(to, 0, 0);
}

fn main() {}
