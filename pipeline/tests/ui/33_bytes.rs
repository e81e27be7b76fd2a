//! More bytes expected than an mbarrier counts.
mod support;
use support::*;

type Large = (Tile<bf16, 8192, 64>,);
const BYTES: u32 = SmemPlan::<(Ring<1, Large, Tma, Reads<Work>, Main, Alone>,)>::BYTES;

fn main() {}
