//! A ring without slots.
mod support;
use support::*;

const BYTES: u32 = SmemPlan::<(PanelRing<Main, 0>,)>::BYTES;

fn main() {}
