//! A ring whose writers are a role, which does not say how it writes.
mod support;
use support::*;

const BYTES: u32 = SmemPlan::<(Ring<2, (Panel,), Load, Reads<Work>, Main, Alone>,)>::BYTES;

fn main() {}
