use warpipe_isa::{device, forceinline};

#[device]
struct NotAFunction;

#[device(never_inline)]
fn with_arguments() {}

#[forceinline]
const NOR_A_CONSTANT: u32 = 1;

#[forceinline(never)]
fn with_arguments_too() {}

#[device]
fn one() -> u32 {
    1
}

fn main() {
    one();
}
