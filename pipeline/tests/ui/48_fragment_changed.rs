//! A fragment of A by hand: its registers belong to it, and to the batch that has it.
mod support;
use support::*;

fn change(mut weights: AFragment<bf16, 64>) {
    weights.regs[0][0] = 0;
}

fn main() {}
