//! An mbarrier used with a named barrier's `sync`.
mod support;
use support::*;

use warpipe_pipeline::raw::{Arrivals, Cta, MBarrier};
fn meet(barrier: &MBarrier<Cta, Arrivals>, group: &Group) {
    barrier.sync(group);
}

fn main() {}
