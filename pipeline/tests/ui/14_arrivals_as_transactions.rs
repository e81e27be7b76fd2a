//! Bytes expected of an mbarrier that counts arrivals alone.

use warpipe_pipeline::raw::{Arrivals, Cta, MBarrier};
fn arm(barrier: &MBarrier<Cta, Arrivals>) {
    barrier.arrive_expect::<8192>();
}

fn main() {}
