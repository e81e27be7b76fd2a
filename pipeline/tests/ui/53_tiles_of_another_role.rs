//! The answers for the role that stores are read by another role.
#![allow(unused_imports)]
mod support;
use support::*;
use warpipe_pipeline::cta::*;
use warpipe_pipeline::grid::*;

names! { Tiles = "tiles", Others = "others" }

fn work(group: &Group, end: ClcGroupEnd<2, Load, Tiles, Alone>) {
    let _tiles = end.by(group);
}

fn main() {}
