//! One load for each tile of the slot, each from a map of that tile.
use crate::support::*;
use warpipe_pipeline::ring::Stage;

use super::squares;

type MmaPlan = SmemPlan<(MmaRing, Buffers)>;
const K_TILES: usize = 3;

#[test]
fn one_load_for_each_tile() {
    squares(K_TILES, |cta: ThisCta<MmaPlan>, a, d| {
        let (cta, (ring, stores)) = cta.init();
        cta.specialize(
            |load| {
                one_thread(load, |one| {
                    let mut loads = ring.producer.by(&one);
                    for k in 0..K_TILES as u32 {
                        let tile = || a.tile(0, 64 * k, Peers::ALONE);
                        loads.acquire().load((tile(), tile()));
                    }
                    loads.tail();
                });
            },
            |group| {
                let mut operands = ring.consumer.by(&group);
                let mut sum = Accumulator::<64>::start(&group, operands.wait());
                for _ in 1..K_TILES {
                    sum.next(operands.wait()).release();
                }
                let (sum, last) = sum.finish();
                last.release();
                let mut stores = stores.by(&group);
                let mut out = stores.acquire();
                for fragment in 0..4 {
                    out.put(fragment, sum.fragment(fragment));
                }
                out.publish().store(d, 0, 0);
                stores.tail();
            },
        );
    });
}

#[test]
fn the_bytes_are_the_tiles() {
    assert_eq!(Operands::BYTES, 2 * 64 * 64 * 2);
}
