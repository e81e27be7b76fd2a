//! A name without text.
use pipeline::prelude::*;

names! { Nameless = "" }

fn main() {}
