//! A named barrier whose id is chosen by hand.
mod support;
use support::*;

fn bar() -> warpipe_pipeline::barrier::Waiter<Load, Work, Meet> {
    warpipe_pipeline::barrier::Waiter { id: 0, name: core::marker::PhantomData }
}

fn main() {}
