//! A pair of CTAs loads with one thread each, and one thread multiplies for both.
use crate::common::{Image, run};
use crate::support::*;
use pipeline::cta::TwoSm;
use pipeline::ring::{Tma2Sm, Umma};
use pipeline::tensor::*;
use sim::GlobalMemory;

names! { Sums = "sums" }
type Two = Cluster<2, 1>;
type A = Tile<bf16, 128, 64>;
/// Half of the 64 columns.
type B = Tile<bf16, 32, 64>;
type PairPlan = SmemPlan<(
    TensorStores<bf16, Work>,
    Ring<2, (A, B), Tma2Sm, Umma<Load, TwoSm>, Main, Two>,
    TensorAccumulators<2, 64, Work, Sums, TwoSm>,
)>;

/// D = A·Aᵀ of the first 64 columns, K is 64 `k_tiles`.
fn kernel(
    cta: Cta<(Load, Work), Two, PairPlan>,
    (a, b): (&TensorMap<A>, &TensorMap<B>),
    d: &TensorMap<Tile<bf16, 128, 64>>,
    k_tiles: u32,
) {
    let (cta, (mut stores, ring, sums)) = cta.init();
    cta.specialize(
        |load| {
            let m = load.coord().m();
            load.two_warps(
                |warp| {
                    let Some(one) = warp.elect() else { return };
                    let mut loads = ring.producer.by(&one);
                    for k in (0..k_tiles).map(|k| 64 * k) {
                        let (a, b) = (
                            a.tile(128 * m, k, Peers::ALONE),
                            b.tile(32 * m, k, Peers::ALONE),
                        );
                        loads.acquire().load((a, b));
                    }
                    loads.tail();
                },
                |warp| {
                    sums.producer.by(warp, |leader, sums| {
                        let mut slots = ring.consumer.by_leader(leader);
                        let mut sum = sums.acquire().start(slots.wait());
                        for _ in 1..k_tiles {
                            sum.add(slots.wait());
                        }
                        sum.commit();
                    });
                },
            );
        },
        |group| {
            let mut sums = sums.reader.by(&group);
            let full = sums.wait();
            let strip = full.strip(0);
            full.release();
            let row = 128 * group.coord().m();
            stores.store(&group, d, row, 0, |half, index| strip.fragment(half, index));
            stores.tail(&group);
        },
    );
}

#[test]
fn a_product_by_a_pair() {
    for seed in 0..4 {
        let memory = GlobalMemory::new();
        let a = Image::new(&memory, 256, 192, |i| (i % 5) as f32 - 2.0);
        let d = Image::new(&memory, 256, 64, |_| f32::NAN);
        let (a_map, b_map, d_map) = (a.map(), a.map(), d.map());
        run(seed, &memory, |cta| kernel(cta, (&a_map, &b_map), &d_map, 3))
            .unwrap_or_else(|report| panic!("seed {seed}:\n{report}"));
        let (a, d) = (a.read(), d.read());
        for (i, &got) in d.iter().enumerate() {
            let (row, col) = (i / 64, i % 64);
            let sum: f32 = (0..192).map(|k| a[192 * row + k] * a[192 * col + k]).sum();
            assert_eq!(bf16::from_f32(got), bf16::from_f32(sum), "({row}, {col})");
        }
    }
}
