//! Certificates of Blackwell's rings: slots that one thread multiplies, and accumulators in tensor memory. No chip has run them.
#![allow(missing_docs)]

use crate::common::{Image, run_with};
use half::bf16;
use pipeline::prelude::*;
use pipeline::ring::Umma;
use pipeline::tensor::{AccumulatorReader, TensorAccumulators};
use sim::{Certificate, Config, GlobalMemory, Limits, Refusal, Report, certify};

names! { Slots = "slots", Sums = "sums" }
roles! { Work = 1 x 40 registers, Store = 1 x 216 registers }

type Alone = Cluster<1, 1>;
type A = Tile<bf16, 128, 64>;
type B = Tile<bf16, 64, 64>;
type Plan<const S: usize> = SmemPlan<(
    Ring<S, (A, B), Tma, Umma<Work>, Slots, Alone>,
    TensorAccumulators<2, 64, Store, Sums>,
)>;

/// A step is a k tile of one tile, or a tile of `k_tiles` k tiles.
fn kernel<const S: usize>(k_tiles: Option<u32>) -> Result<Certificate, Refusal<Box<Report>>> {
    certify(&Config::default(), &Limits::default(), |config, trial| {
        let (tiles, k_tiles) = k_tiles.map_or((1, trial.steps), |k| (trial.steps, k));
        let memory = GlobalMemory::new();
        let value = |i: usize| ((i + 3 * trial.data as usize) % 7) as f32;
        let cols = 64 * k_tiles as usize;
        let (a, b) = (Image::new(&memory, 128, cols, value), Image::new(&memory, 64, cols, value));
        let (a, b) = (a.map::<A, _>(), b.map::<B, _>());
        run_with(config, &memory, |cta: Cta<(Work, Store), Alone, Plan<S>>| {
            let (cta, (operands, sums)) = cta.init();
            cta.specialize(
                |work| {
                    work.two_warps(
                        |warp| {
                            let Some(one) = warp.elect() else { return };
                            let mut ring = operands.producer.by(&one);
                            for _ in 0..tiles {
                                for k in 0..k_tiles {
                                    ring.acquire().load((
                                        a.tile(0, 64 * k, Peers::ALONE),
                                        b.tile(0, 64 * k, Peers::ALONE),
                                    ));
                                }
                            }
                            ring.tail();
                        },
                        |warp| {
                            sums.producer.by(warp, |one, sums| {
                                let mut operands = operands.consumer.by_one(one);
                                for _ in 0..tiles {
                                    let mut sum = sums.acquire().start(operands.wait());
                                    for _ in 1..k_tiles {
                                        sum.add(operands.wait());
                                    }
                                    sum.commit();
                                }
                            });
                        },
                    );
                },
                |group| {
                    let mut sums: AccumulatorReader<'_, 2, 64, Store, Sums, Alone> =
                        sums.reader.by(&group);
                    for _ in 0..tiles {
                        let full = sums.wait();
                        let _strip = full.strip(0);
                        full.release();
                    }
                },
            );
        })
    })
}

/// Two wraps of the ring are a period.
#[test]
fn a_ring_that_one_thread_multiplies() {
    let certificate = kernel::<2>(None).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(certificate.period, 4, "{certificate}");
}

/// Two wraps of both rings: two accumulators, and two slots.
#[test]
fn accumulators_that_a_group_reads() {
    let certificate = kernel::<2>(Some(1)).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(certificate.period, 4, "{certificate}");
}
