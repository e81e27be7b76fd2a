//! A ring whose readers are a role, which does not say how it reads.
mod support;
use support::*;

const BYTES: u32 = SmemPlan::<(Ring<2, (Panel,), Tma, Work, Main, Alone>,)>::BYTES;

fn main() {}
