//! The `warpipe` command.
fn main() {}
