//! Certificates of a pair's rings and of launch control. No chip has run them.
#![allow(missing_docs)]

use crate::common::{Image, run_clusters, run_with};
use half::bf16;
use pipeline::cta::{ClusterShape, TwoSm};
use pipeline::grid::{ClcEnds, ClcFetch};
use pipeline::prelude::*;
use pipeline::ring::{Tma2Sm, Umma};
use pipeline::tensor::{AccumulatorReader, TensorAccumulators};
use sim::{Certificate, Config, GlobalMemory, Limits, Refusal, Report, certify};

names! { Slots = "slots", Sums = "sums", Answers = "answers" }
roles! { Work = 1 x 40 registers, Store = 1 x 216 registers }

type Certified = Result<Certificate, Refusal<Box<Report>>>;
type A = Tile<bf16, 128, 64>;

type Pair = Cluster<2, 1>;
/// A CTA's half of 64 columns.
type HalfOfB = Tile<bf16, 32, 64>;
type PairPlan = SmemPlan<(
    Ring<2, (A, HalfOfB), Tma2Sm, Umma<Work, TwoSm>, Slots, Pair>,
    TensorAccumulators<2, 64, Store, Sums, TwoSm>,
)>;

/// By a pair of CTAs. A step is a k tile of one tile, or a tile of `k_tiles` k tiles.
fn pair(k_tiles: Option<u32>) -> Certified {
    certify(&Config::default(), &Limits::default(), |config, trial| {
        let (tiles, k_tiles) = k_tiles.map_or((1, trial.steps), |k| (trial.steps, k));
        let memory = GlobalMemory::new();
        let value = |i: usize| ((i + 3 * trial.data as usize) % 7) as f32;
        let cols = 64 * k_tiles as usize;
        let (a, b) = (Image::new(&memory, 256, cols, value), Image::new(&memory, 64, cols, value));
        let (a, b) = (a.map::<A, _>(), b.map::<HalfOfB, _>());
        run_with(config, &memory, |cta: Cta<(Work, Store), Pair, PairPlan>| {
            let (cta, (operands, sums)) = cta.init();
            cta.specialize(
                |work| {
                    let m = work.coord().m();
                    work.two_warps(
                        |warp| {
                            let Some(one) = warp.elect() else { return };
                            let mut ring = operands.producer.by(&one);
                            for _ in 0..tiles {
                                for k in 0..k_tiles {
                                    ring.acquire().load((
                                        a.tile(128 * m, 64 * k, Peers::ALONE),
                                        b.tile(32 * m, 64 * k, Peers::ALONE),
                                    ));
                                }
                            }
                            ring.tail();
                        },
                        |warp| {
                            sums.producer.by(warp, |leader, sums| {
                                let mut operands = operands.consumer.by_leader(leader);
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
                    let mut sums = sums.reader.by(&group);
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
fn a_ring_that_a_pair_multiplies() {
    let certificate = pair(None).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(certificate.period, 4, "{certificate}");
}

/// Two wraps of both rings.
#[test]
fn accumulators_of_a_pair() {
    let certificate = pair(Some(1)).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(certificate.period, 4, "{certificate}");
}

type B = Tile<bf16, 64, 64>;
type ClcPlan<Cl> = SmemPlan<(
    Ring<2, (A, B), Tma, Umma<Work>, Slots, Cl>,
    TensorAccumulators<2, 64, Store, Sums>,
    ClcFetch<2, 2, Store, Answers, Cl>,
)>;

/// A grid with a cluster for each tile, of which the first gets all tiles from launch control. A step is a tile.
fn launch_control<Cl: ClusterShape<SharesA: Sync, SharesB: Sync>>() -> Certified {
    certify(&Config::default(), &Limits::default(), |config, trial| {
        let memory = GlobalMemory::new();
        let value = |i: usize| ((i + 3 * trial.data as usize) % 7) as f32;
        let (a, b) = (Image::new(&memory, 256, 64, value), Image::new(&memory, 64, 64, value));
        let (a, b) = (a.map::<A, Cl::SharesA>(), b.map::<B, Cl::SharesB>());
        run_clusters(config, &memory, trial.steps, |cta: Cta<(Work, Store), Cl, ClcPlan<Cl>>| {
            let (cta, (operands, sums, tiles)) = cta.init();
            let ClcEnds { fetch, warps: [loads, multiplies], leaders: [], stores } = tiles;
            cta.specialize(
                |work| {
                    let at = work.coord();
                    work.four_warps(
                        |warp| {
                            let Some(one) = warp.elect() else { return };
                            let mut ring = operands.producer.by(&one);
                            for _tile in loads.by(&one) {
                                ring.acquire().load((
                                    a.tile(128 * at.m(), 0, at.sharing_a()),
                                    b.tile(0, 0, at.sharing_b()),
                                ));
                            }
                            ring.tail();
                        },
                        |warp| {
                            sums.producer.by(warp, |one, sums| {
                                let mut operands = operands.consumer.by_one(one);
                                for _tile in multiplies.by(one) {
                                    sums.acquire().start(operands.wait()).commit();
                                }
                            });
                        },
                        |warp| {
                            let Some(one) = warp.elect() else { return };
                            fetch.by(&one);
                        },
                        |_| {},
                    );
                },
                |group| {
                    let mut sums: AccumulatorReader<'_, 2, 64, Store, Sums, Cl> =
                        sums.reader.by(&group);
                    for _tile in stores.by(&group) {
                        let full = sums.wait();
                        let _strip = full.strip(0);
                        full.release();
                    }
                },
            );
        })
    })
}

/// Two wraps of all rings: two answers, two slots, and two accumulators.
#[test]
fn tiles_from_launch_control() {
    let certificate = launch_control::<Cluster<1, 1>>().unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(certificate.period, 4, "{certificate}");
}

/// The first CTA asks for both, and an answer is a multicast.
#[test]
fn tiles_from_launch_control_in_a_cluster() {
    let certificate = launch_control::<Cluster<2, 1>>().unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(certificate.period, 4, "{certificate}");
}
