//! One arrival at the cluster's barrier, and two waits.
mod support;
use support::*;

use warpipe_pipeline::cta::Ready;

fn meet(cta: Ready<(Load, Work), Cluster<2, 1>>) {
    let arrived = cta.cluster_arrive();
    let first = arrived.wait();
    let second = arrived.wait();
    first.specialize(|_load| {}, |_work| {});
    second.specialize(|_load| {}, |_work| {});
}

fn main() {}
