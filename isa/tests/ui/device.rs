use warpipe_isa::device;

#[device]
struct NotAFunction;

#[device(never_inline)]
fn with_arguments() {}

#[device]
fn one() -> u32 {
    1
}

fn main() {
    one();
}
