//! The correct program of row 53 of the catalogue: every end of the answers is taken once.
#![allow(unused_imports)]
mod support;
use support::*;
use warpipe_pipeline::cta::*;
use warpipe_pipeline::grid::*;

names! { Tiles = "tiles", Others = "others" }

fn ask(one: &One, end: ClcFetchEnd<2, Tiles, Alone>) {
    end.by(one);
}

fn count(one: &One, end: ClcWarpEnd<2, Tiles, Alone>) -> usize {
    end.by(one).count()
}

fn main() {
    let (_, _) = (ask, count);
    type Fetch = ClcFetch<2, 1, Work, Tiles, Alone>;
    assert_eq!(SmemPlan::<(Fetch,)>::BYTES, 2 * 32);
}
