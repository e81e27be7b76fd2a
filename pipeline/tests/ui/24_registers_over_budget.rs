//! Roles that together want more registers than an SM has.
mod support;
use support::*;

roles! { Math = 3 x 168 registers }
const THREADS: u32 = Cta::<(Load, Math), Alone>::THREADS;

fn main() {}
