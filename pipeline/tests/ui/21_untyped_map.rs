//! A tensor map typed without saying what it encodes.
mod support;
use support::*;

fn map(words: [u64; 16]) -> TensorMap<Panel> {
    TensorMap::from_bytes(isa::cp_async_bulk::TensorMapBytes(words))
}

fn main() {}
