//! Two buffers, and a panel lent while two stores may be reading.
mod support;
use support::*;

const BYTES: u32 = SmemPlan::<(StoreBuffers<bf16, 2, Work, 2>,)>::BYTES;

fn main() {}
