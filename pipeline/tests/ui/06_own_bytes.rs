//! A stage that states its own bytes.

struct Slot;
impl warpipe_pipeline::ring::Stage for Slot {
    const BYTES: usize = 4096;
    const TILES: usize = 1;
}

fn main() {}
