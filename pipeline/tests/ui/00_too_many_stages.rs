//! A ring of more than 32 slots.
mod support;
use support::*;

const BYTES: u32 = SmemPlan::<(Ring<33, (Tile<bf16, 8, 64>,), Tma, Reads<Work>, Main, Alone>,)>::BYTES;

fn main() {}
