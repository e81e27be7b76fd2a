//! A name without text.
use warpipe_pipeline::prelude::*;

names! { Nameless = "" }

fn main() {}
