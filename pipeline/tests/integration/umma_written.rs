//! A ring that threads fill and that one thread multiplies into tensor memory, as where operands are converted on their way
//! (CUTLASS `PipelineUmmaConsumerAsync`). No chip has run it.
#![allow(missing_docs)]

use crate::common::{Image, run_with};
use half::bf16;
use pipeline::prelude::*;
use pipeline::ring::Umma;
use pipeline::tensor::{TensorAccumulators, TensorStores};
use sim::{Config, GlobalMemory, Limits, Report, Stats, certify};

names! { Loaded = "loaded", Converted = "converted", Sums = "sums" }
roles! { Work = 1 x 40 registers, Convert = 1 x 168 registers, Store = 1 x 216 registers }

type Alone = Cluster<1, 1>;
type Quarter = Tile<bf16, 64, 64>;
type A = Tile<bf16, 128, 64>;
type Plan<const S: usize> = SmemPlan<(
    TensorStores<bf16, Store>,
    // The upper and the lower half of A, and B.
    Ring<2, [Quarter; 3], Tma, Reads<Convert>, Loaded, Alone>,
    Ring<S, (A, Quarter), Writes<Convert>, Umma<Work>, Converted, Alone>,
    TensorAccumulators<2, 64, Store, Sums>,
)>;

/// D = (2 A)·Bᵀ of 128 x 64 elements in `k_tiles` k tiles: the warp group `Convert` doubles A.
fn doubled<const S: usize>(
    config: &Config,
    memory: &GlobalMemory,
    [a, b, d]: [&Image; 3],
    k_tiles: u32,
) -> Result<Stats, Box<Report>> {
    let (a, b, d) = (a.map::<Quarter, _>(), b.map::<Quarter, _>(), d.map::<A, _>());
    run_with(config, memory, |cta: Cta<(Work, Convert, Store), Alone, Plan<S>>| {
        let (cta, (mut stores, loaded, operands, sums)) = cta.init();
        cta.specialize(
            |work| {
                work.two_warps(
                    |warp| {
                        let Some(one) = warp.elect() else { return };
                        let mut ring = loaded.producer.by(&one);
                        for k in (0..k_tiles).map(|k| 64 * k) {
                            ring.acquire().load([
                                a.tile(0, k, Peers::ALONE),
                                a.tile(64, k, Peers::ALONE),
                                b.tile(0, k, Peers::ALONE),
                            ]);
                        }
                        ring.tail();
                    },
                    |warp| {
                        sums.producer.by(warp, |one, sums| {
                            let mut operands = operands.consumer.by_one(one);
                            let mut sum = sums.acquire().start(operands.wait());
                            for _ in 1..k_tiles {
                                sum.add(operands.wait());
                            }
                            sum.commit();
                        });
                    },
                );
            },
            |group| {
                let mut loaded = loaded.consumer.by(&group);
                let mut slots = operands.producer.by(&group);
                for _ in 0..k_tiles {
                    let from = loaded.wait();
                    let mut to = slots.acquire();
                    for i in 0..4 {
                        for half in 0..2 {
                            let a = from.fragment(&group, half, i);
                            to.put_to::<0>(4 * half + i, a.map(|x| 2.0 * x));
                        }
                        to.put_to::<1>(i, from.fragment(&group, 2, i));
                    }
                    from.release();
                    to.commit();
                }
                slots.tail();
            },
            |group| {
                let mut sums = sums.reader.by(&group);
                let full = sums.wait();
                let strip = full.strip(0);
                full.release();
                stores.store(&group, &d, 0, 0, |half, index| strip.fragment(half, index));
                stores.tail(&group);
            },
        );
    })
}

/// The matrices, and what D must be.
fn matrices(memory: &GlobalMemory, k_tiles: u32) -> ([Image; 3], Vec<f32>) {
    let k = 64 * k_tiles as usize;
    let of_a = |i: usize| ((i * 5 + i / k) % 7) as f32 - 3.0;
    let of_b = |i: usize| ((i * 3 + i / k) % 5) as f32 - 2.0;
    let a = Image::new(memory, 128, k, of_a);
    let b = Image::new(memory, 64, k, of_b);
    let d = Image::new(memory, 128, 64, |_| f32::NAN);
    let element = |i: usize| {
        let (row, col) = (i / 64, i % 64);
        let sum: f32 = (0..k).map(|k_| of_a(row * k + k_) * of_b(col * k + k_)).sum();
        bf16::from_f32(2.0 * sum).to_f32()
    };
    ([a, b, d], (0..128 * 64).map(element).collect())
}

#[test]
fn converted_operands_are_multiplied() {
    for (seed, k_tiles) in (0..40).map(|seed| (seed, 1 + seed as u32 % 5)) {
        let memory = GlobalMemory::new();
        let ([a, b, d], right) = matrices(&memory, k_tiles);
        let config = Config { seed, workers: Some(1), ..Config::default() };
        let images = [&a, &b, &d];
        let ran = match seed % 2 {
            0 => doubled::<1>(&config, &memory, images, k_tiles),
            _ => doubled::<3>(&config, &memory, images, k_tiles),
        };
        ran.unwrap_or_else(|report| panic!("seed {seed}, {k_tiles} k tiles: {report}"));
        assert_eq!(d.read(), right, "seed {seed}, {k_tiles} k tiles");
    }
}

/// For any number of k tiles.
#[test]
fn the_ring_has_a_certificate() {
    let certificate = certify(&Config::default(), &Limits::default(), |config, trial| {
        let memory = GlobalMemory::new();
        let ([a, b, d], _) = matrices(&memory, trial.steps);
        doubled::<2>(config, &memory, [&a, &b, &d], trial.steps)
    });
    let certificate = certificate.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(certificate.period, 4, "two wraps of both rings: {certificate}");
}
