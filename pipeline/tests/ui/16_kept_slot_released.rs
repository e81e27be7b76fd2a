//! Queries kept for another batch, and released without one.
mod support;
use support::*;

type Queries = RetiredSlot<(Panel,), Mma<Work>, Main, Alone>;

fn last(queries: Queries) {
    queries.keep().release();
}

fn main() {}
