//! One end of the answers is taken by two threads: there would be an arrival too many.
#![allow(unused_imports)]
mod support;
use support::*;
use warpipe_pipeline::cta::*;
use warpipe_pipeline::grid::*;

names! { Tiles = "tiles", Others = "others" }

fn work(one: &One, end: ClcWarpEnd<2, Tiles, Alone>) {
    let _loads = end.by(one);
    let _multiplies = end.by(one);
}

fn main() {}
