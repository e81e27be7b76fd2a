//! Roles that start between the arrival at the cluster's barrier and the wait.
mod support;
use support::*;

use warpipe_pipeline::cta::Ready;

fn meet(cta: Ready<(Load, Work), Cluster<2, 1>>) {
    let arrived = cta.cluster_arrive();
    cta.specialize(|_load| {}, |_work| {});
    let _cta = arrived.wait();
}

fn main() {}
