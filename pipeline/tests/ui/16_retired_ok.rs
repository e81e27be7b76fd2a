//! A slot that wgmma reads comes back from the batch when it has retired.
use crate::support::*;
use super::squares;

type MmaPlan = SmemPlan<(MmaRing, Buffers)>;
const K_TILES: usize = 3;

#[test]
fn each_batch_gives_its_slot_back() {
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
                let mut batch = Accumulator::<64>::start(&group, operands.wait());
                for _ in 1..K_TILES {
                    let retired = batch.next(operands.wait());
                    retired.release();
                }
                let (sum, last) = batch.finish();
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
