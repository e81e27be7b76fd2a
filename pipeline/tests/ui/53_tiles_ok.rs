//! Every end of the answers of launch control is taken once. The grid is one CTA: it gets its own tile, and no other one.
use crate::common::run;
use crate::support::*;
use pipeline::grid::{ClcEnds, ClcFetch};
use sim::GlobalMemory;

names! { Tiles = "tiles" }

fn kernel(cta: ThisCta<SmemPlan<(ClcFetch<2, 1, Work, Tiles, Alone>,)>>) {
    let (cta, (tiles,)) = cta.init();
    let ClcEnds { fetch, warps: [loads], leaders: [], stores } = tiles;
    cta.specialize(
        |load| {
            load.two_warps(
                |warp| {
                    if let Some(one) = warp.elect() {
                        fetch.by(&one);
                    }
                },
                |warp| {
                    if let Some(one) = warp.elect() {
                        assert!(loads.by(&one).eq([0]));
                    }
                },
            );
        },
        |group| assert!(stores.by(&group).eq([0])),
    );
}

#[test]
fn all_get_the_same_tiles() {
    for seed in 0..8 {
        run(seed, &GlobalMemory::new(), kernel).unwrap_or_else(|report| panic!("{seed}:\n{report}"));
    }
}
