//! A named barrier whose id is chosen by hand.
mod support;
use support::*;

fn bar() -> pipeline::barrier::Waiter<Load, Work, Meet> {
    pipeline::barrier::Waiter { id: 0, name: core::marker::PhantomData }
}

fn main() {}
