//! The thread that has seen a request fail asks again.
#![allow(unused_imports)]
mod support;
use support::*;
use warpipe_pipeline::cta::*;
use warpipe_pipeline::grid::*;

names! { Tiles = "tiles", Others = "others" }

fn ask(one: &One, end: ClcFetchEnd<2, Tiles, Alone>) {
    end.by(one);
    end.by(one);
}

fn main() {}
