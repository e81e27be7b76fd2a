//! Repository chores: `cargo xtask bundle`.
fn main() {}
