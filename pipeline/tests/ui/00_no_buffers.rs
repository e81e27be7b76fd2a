//! A warp group with no buffer to store from.
mod support;
use support::*;

const BYTES: u32 = SmemPlan::<(StoreBuffers<bf16, 0, Work>,)>::BYTES;

fn main() {}
