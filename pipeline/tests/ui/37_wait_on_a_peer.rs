//! A wait on a peer's barrier.

use warpipe_pipeline::raw::{Arrivals, Cluster, MBarrier};
fn wait(barrier: &MBarrier<Cluster, Arrivals>) {
    barrier.remote(1).wait(0);
}

fn main() {}
