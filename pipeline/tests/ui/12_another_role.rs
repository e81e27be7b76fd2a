//! A named barrier met by a role that its count does not include.
mod support;
use support::*;

fn meet(waiter: &warpipe_pipeline::barrier::Waiter<Load, Work, Meet>, group: &Warpgroup<Load, Alone>) {
    waiter.sync(group);
}

fn main() {}
