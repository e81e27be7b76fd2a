//! Tiles in halves: the right one is written while the next tile's left one is multiplied.
use super::squares;
use crate::support::*;

type MmaPlan = SmemPlan<(MmaRing, Buffers)>;
const K_TILES: usize = 3;
const TILES: usize = 3;

#[test]
fn the_ends_of_tiles_overlap() {
    squares(K_TILES, |cta: ThisCta<MmaPlan>, a, d| {
        let (cta, (ring, stores)) = cta.init();
        cta.specialize(
            |load| {
                one_thread(load, |one| {
                    let mut loads = ring.producer.by(&one);
                    for k in (0..TILES).flat_map(|_| 0..K_TILES as u32) {
                        let tile = || a.tile(0, 64 * k, Peers::ALONE);
                        loads.acquire().load((tile(), tile()));
                    }
                    loads.tail();
                });
            },
            |group| {
                let mut operands = ring.consumer.by(&group);
                let mut stores = stores.by(&group);
                let mut sum =
                    SplitAccumulator::<48, 16>::start(&group, operands.wait()).start_right();
                // All tiles are the same product; only the last one lies inside of D.
                for row in (0..TILES as u32).rev().map(|tile| 64 * tile) {
                    for _ in 1..K_TILES {
                        sum.next(operands.wait()).release();
                    }
                    let (left, rest) = sum.finish_left();
                    let mut out = stores.acquire();
                    for fragment in 0..3 {
                        out.put(fragment, left.fragment(fragment));
                    }
                    let (right, last) = rest.finish();
                    last.release();
                    if row == 0 {
                        out.put(3, right.fragment(0));
                        out.publish().store(d, row, 0);
                        break;
                    }
                    let started = SplitAccumulator::start(&group, operands.wait());
                    out.put(3, right.fragment(0));
                    out.publish().store(d, row, 0);
                    sum = started.start_right();
                }
                stores.tail();
            },
        );
    });
}
