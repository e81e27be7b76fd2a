//! An arrival at the cluster's barrier that nobody waits after.
#![deny(unused_must_use)]
mod support;
use support::*;

use warpipe_pipeline::cta::Ready;

fn meet(cta: Ready<(Load, Work), Cluster<2, 1>>) {
    cta.cluster_arrive_relaxed();
}

fn main() {}
