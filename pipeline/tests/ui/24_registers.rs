//! Registers that setmaxnreg can not set.
mod support;
use support::*;

roles! { Odd = 1 x 100 registers }
const THREADS: u32 = Cta::<(Load, Odd), Alone>::THREADS;

fn main() {}
