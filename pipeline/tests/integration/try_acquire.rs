//! What a look at a slot says: empty at first; not while the reader has it; empty after its release.
//! And what was looked at is taken: the data come through whole, in any schedule.
#![allow(missing_docs)]

use crate::common::{Image, run};
use half::bf16;
use pipeline::barrier::NamedBarrier;
use pipeline::prelude::*;
use pipeline::ring::TmaParts;
use sim::GlobalMemory;

names! { Main = "main", Looked = "looked", Released = "released" }
roles! { Fill = 1 x 40 registers, Work = 1 x 232 registers }

type Panel = Tile<bf16, 64, 64>;
type Alone = Cluster<1, 1>;
type ThisCta<P> = Cta<(Fill, Work), Alone, P>;
type Plan<S, W> = SmemPlan<(
    Ring<1, S, W, Reads<Work>, Main, Alone>,
    NamedBarrier<Fill, Work, Looked>,
    NamedBarrier<Work, Fill, Released>,
)>;

#[test]
fn a_writer_sees_the_release() {
    for seed in 0..10 {
        let memory = GlobalMemory::new();
        run(seed, &memory, |cta: ThisCta<Plan<(Panel,), Writes<Fill>>>| {
            let (cta, (ring, looked, released)) = cta.init();
            cta.specialize(
                |group| {
                    let mut slots = ring.producer.by(&group);
                    let first = slots.try_acquire();
                    assert!(first.ready(), "nobody has used the slot");
                    let mut slot = first.acquire();
                    slot.put(0, [1.0; 8]);
                    slot.commit();
                    assert!(!slots.try_acquire().ready(), "the reader has not released it");
                    looked.arriver.arrive(&group);
                    released.waiter.sync(&group);
                    let second = slots.try_acquire();
                    assert!(second.ready(), "the reader has released it");
                    let mut slot = second.acquire();
                    slot.put(0, [2.0; 8]);
                    slot.commit();
                    slots.try_acquire().acquire().commit();
                    slots.tail();
                },
                |group| {
                    let mut arrived = ring.consumer.by(&group);
                    let slot = arrived.wait();
                    assert!(slot.fragment(&group, 0).iter().all(|x| x.to_bits() == 1f32.to_bits()));
                    looked.waiter.sync(&group);
                    slot.release();
                    released.arriver.arrive(&group);
                    let slot = arrived.wait();
                    assert!(slot.fragment(&group, 0).iter().all(|x| x.to_bits() == 2f32.to_bits()));
                    slot.release();
                    arrived.wait().release();
                },
            );
        })
        .unwrap_or_else(|report| panic!("seed {seed}:\n{report}"));
    }
}

type TwoParts = SmemPlan<(Ring<2, (Panel, Panel), TmaParts, Reads<Work>, Main, Alone>,)>;

#[test]
fn parts_are_loaded_after_a_look() {
    for seed in 0..10 {
        let memory = GlobalMemory::new();
        let from = Image::new(&memory, 64 * 5, 64, |i| i as f32);
        let map = from.map::<Panel, _>();
        run(seed, &memory, |cta: ThisCta<TwoParts>| {
            let (cta, (ring,)) = cta.init();
            let (left, right) = ring.producer.parts();
            cta.specialize(
                |load| {
                    load.two_warps(
                        |warp| {
                            let Some(one) = warp.elect() else { return };
                            let mut loads = left.by(&one);
                            assert!(loads.try_acquire().ready(), "nobody has used the slot");
                            for step in 0..5 {
                                let slot = loads.try_acquire().acquire();
                                slot.load(map.tile(64 * step, 0, Peers::ALONE));
                            }
                            loads.tail();
                        },
                        |warp| {
                            let Some(one) = warp.elect() else { return };
                            let mut loads = right.by(&one);
                            for step in 0..5 {
                                loads.acquire().load(map.tile(64 * step, 0, Peers::ALONE));
                            }
                            loads.tail();
                        },
                    );
                },
                |group| {
                    let mut arrived = ring.consumer.by(&group);
                    for _ in 0..5 {
                        arrived.wait().release();
                    }
                },
            );
        })
        .unwrap_or_else(|report| panic!("seed {seed}:\n{report}"));
    }
}
