//! Builds the embedded kernel image.
fn main() {}
