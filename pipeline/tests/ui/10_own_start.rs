//! A first phase that is neither the main loop's nor the epilogue's.

use warpipe_pipeline::barrier::Start;

struct Later;
impl Start for Later {
    const FIRST_PASSES: bool = true;
}

fn main() {}
