//! A plan over the shared memory of a CTA.
mod support;
use support::*;

const BYTES: u32 = SmemPlan::<(PanelRing<Main, 32>,)>::BYTES;

fn main() {}
