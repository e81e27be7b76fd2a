//! The ends of a ring that no plan has initialised.
mod support;
use support::*;

fn kernel(place: warpipe_pipeline::cta::Place) {
    use warpipe_pipeline::cta::Region;
    let ends = PanelRing::<Main>::ends(place);
    drop(ends);
}

fn main() {}
