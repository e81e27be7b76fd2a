//! A named barrier whose id is chosen by hand.
mod support;
use support::*;

fn bar() -> pipeline::named::Waiter<Load, Work, Meet> {
    pipeline::named::Waiter { id: 0, name: core::marker::PhantomData }
}

fn main() {}
